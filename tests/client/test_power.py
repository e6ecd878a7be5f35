"""The power is cut at any time, and no wallet is gone whose reports may have been sent: the next has a fresh cap."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.powercut import LIVES, lost, recorded

CUTS = 40


@pytest.mark.parametrize("life", LIVES)
def test_a_wallet_in_a_new_folder_survives_cuts_of_the_power(tmp_path: Path, life: str) -> None:
    found = recorded(tmp_path, life)

    assert len(found.said(len(found.events))) >= 2
    assert list(lost(found, tmp_path, life, CUTS, seed=1)) == []


@pytest.mark.parametrize("life", LIVES)
def test_a_folder_whose_name_was_never_synced_is_found(tmp_path: Path, life: str) -> None:
    wrong = list(lost(recorded(tmp_path, life, "ForgetsNames"), tmp_path, life, CUTS, seed=1))

    assert any("the next wallet comes with a fresh cap" in each for each in wrong), wrong
