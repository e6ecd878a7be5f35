"""Folders of wallets: private, and their names on disk before anything is written into them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from askance_client.wallet.durable import make_folder, sync_names


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that are synced, in order."""
    found, sync, opened, names = list[Path](), os.fsync, os.open, dict[int, Path]()

    def named(path: Path, *flags: int, **more: Any) -> int:  # pytest itself opens some, too
        descriptor = opened(path, *flags, **more)
        names[descriptor] = Path(path).absolute()
        return descriptor

    def recorded(descriptor: int) -> None:
        found.append(names[descriptor])
        sync(descriptor)

    monkeypatch.setattr(os, "open", named)
    monkeypatch.setattr(os, "fsync", recorded)
    return found


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("open_umask")
def test_a_new_folder_is_its_owners_alone_and_those_above_it_are_as_others_make_them(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b" / "wallets")

    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/wallets")] == [0o777, 0o777, 0o700]


def test_each_name_is_synced_as_soon_as_it_is_there_and_that_of_the_folder_once_more(
    tmp_path: Path, synced: list[Path]
) -> None:
    make_folder(tmp_path / "a" / "wallets")

    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a"]


def test_the_name_of_a_folder_that_is_there_is_synced_and_nothing_about_it_changes(
    tmp_path: Path, synced: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is named from within the folder above."""
    (tmp_path / "wallets").mkdir(mode=0o755)
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path / "wallets", Path("wallets")):
        make_folder(folder)

    assert synced == [tmp_path, tmp_path]
    assert mode(tmp_path / "wallets") == 0o755


def test_another_program_may_make_the_folder_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "exists", lambda self: self != tmp_path / "wallets")
    for _ in range(2):
        make_folder(tmp_path / "wallets")

    assert (tmp_path / "wallets").is_dir()


def test_where_folders_cannot_be_synced_nothing_fails_and_nothing_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, close = list[int](), os.close

    def refused(_: int) -> None:
        raise OSError

    monkeypatch.setattr(os, "fsync", refused)
    monkeypatch.setattr(os, "close", lambda descriptor: closed.append(descriptor) or close(descriptor))
    sync_names(tmp_path)
    sync_names(tmp_path / "gone")

    assert len(closed) == 1
