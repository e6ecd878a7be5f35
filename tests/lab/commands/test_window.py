"""What a terminal shows fits it, counts in words that agree, and can be read on light and on dark."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.color import Color

from askance_lab.commands.shared.colours import REST_OF_A_BAR, RIGHT, WRONG
from askance_lab.commands.shared.exit_codes import Exit, report
from askance_lab.commands.shared.window import tied, wrapped
from askance_protocol.text import are, counted
from askance_server.core.verification import VerificationError
from tests.lab.commands.calls import invoke


def too_wide(text: str, width: int = 80) -> list[str]:
    return [line for line in text.splitlines() if cell_len(line) > width]


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "masked-parity", "--d", "64"),
        ("theory",),
        ("theory", "at-once-limit"),
        ("survey", "--help"),
        ("client", "--help"),
        ("study", "create", "--help"),
    ],
)
def test_no_line_is_wider_than_eighty_columns(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert too_wide(invoke(*words)) == []


def test_control_a_line_of_eighty_one_columns_is_found() -> None:
    assert too_wide("x" * 80) == []
    assert too_wide("x" * 81) != []
    assert too_wide("界" * 41) != []


@pytest.mark.parametrize("text", ["one two three " * 20, "界界 " * 60])
def test_a_text_is_wrapped_under_its_label(text: str) -> None:
    lines = wrapped(text, "label      ", 80)

    assert too_wide("\n".join(lines)) == []
    assert all(line.startswith(" " * 11) for line in lines[1:])
    assert " ".join(" ".join(lines).split()[1:]) == text.strip()


def test_what_is_tied_stays_in_one_line() -> None:
    free, kept = (" ".join(wrapped(f"{'x' * 60} {words}", "", 80)) for words in ("a b", tied("a b")))
    assert free == kept
    for width in range(40, 60):
        assert any("ε = 1" in line for line in wrapped("some words before ε is bound, so that ε = 1 holds", "", width))


@pytest.mark.parametrize(("number", "said"), [(0, "0 users"), (1, "1 user"), (2, "2 users"), (2000, "2,000 users")])
def test_a_count_agrees_with_what_it_counts(number: int, said: str) -> None:
    assert counted(number, "user") == said
    assert counted(number, "entry", "entries").endswith("entry" if number == 1 else "entries")
    assert are(number).endswith(" is" if number == 1 else " are")


def test_a_check_that_failed_says_what_to_do_and_not_to_read_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(VerificationError("does not follow"), "askance study verify") == Exit.CHECK_FAILED
    said = capsys.readouterr().err

    assert "--help" not in said
    assert "askance wallet heads --compare" in said


WINDOWS = ("#ffffff", "#000000", "#171421")
"""White, black, and GNOME's dark."""


def lightness(colour: str) -> float:
    """Relative luminance, as WCAG 2 has it."""
    parts = [each / 255 for each in Color.parse(colour).get_truecolor()]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(colour: str) -> float:
    """The least contrast that a colour has on any of these windows."""
    pairs = (sorted((lightness(colour), lightness(each))) for each in WINDOWS)
    return min((light + 0.05) / (dark + 0.05) for dark, light in pairs)


def test_colours_are_read_on_light_and_on_dark() -> None:
    for colour in (RIGHT, WRONG):
        assert contrast(colour) >= 3.9
    assert contrast(REST_OF_A_BAR) >= 3
    # The control: what terminals have for green and red by themselves.
    assert all(contrast(each) < 3.3 for each in ("#00cd00", "#c01c28"))
