"""Heavy hitters of a table are asked of a field of bits; of a field of another kind it says what else there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.commands.calls import at_home

ROWS = "button,clicks\nbuy,3\nhelp,1\n"


@pytest.mark.parametrize(("column", "helped"), [("button", True), ("clicks", False)])
def test_a_field_that_is_no_string_of_bits_is_refused_with_what_to_ask_instead(
    column: str, helped: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "clicks.csv"
    table.write_text(ROWS, "utf-8")
    code, printed, said = at_home(capsys, "run", "heavy-hitters", "--data", table, "--set", f"column={column}")

    assert (code, printed) == (2, "")
    assert "name a field of bits" in said
    assert ("askance survey --ask 'histogram(…)'" in said) is helped
