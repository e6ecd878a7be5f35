"""`askance fleet`: which users it runs; a server that is not there. Its studies are in tests/e2e."""

from __future__ import annotations

from pathlib import Path

import pytest

from askance_lab.commands.fleet import share_of
from askance_lab.commands.shared.exit_codes import Exit
from askance_protocol.errors import UsageError
from tests.harness.servers import ServerProcess
from tests.lab.commands.calls import askance, token_options


@pytest.mark.parametrize("command", ["fleet", "load"])
def test_a_server_that_is_not_there_has_an_exit_code_of_its_own(
    command: str, tmp_path: Path, server: ServerProcess
) -> None:
    url = server.url
    more = token_options(server) if command == "load" else [*token_options(server)[2:], "--wallets", tmp_path / "w"]
    server.stop()
    run = askance(command, "--server", url, "--users", 1, *more)

    assert run.returncode == Exit.UNREACHABLE
    assert "askance serve" in run.stderr
    assert "Traceback" not in run.stderr


def test_shares_are_equal_and_together_all_users() -> None:
    shares = [share_of(range(5, 15), f"{number}/3") for number in (1, 2, 3)]

    assert [row for share in shares for row in share] == list(range(5, 15))
    assert {len(share) for share in shares} == {3, 4}
    for wrong in ("0/3", "4/3", "1", "1/11", "a/b", "-1/3"):
        with pytest.raises(UsageError, match="--share"):
            share_of(range(5, 15), wrong)
