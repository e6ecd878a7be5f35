"""An evening in ten lines: what docs/room.md begins with can be typed, is run further down, and says the right odds."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

from tests.lab.commands.calls import askance, json_of

TEXT: Final = (Path(__file__).parents[3] / "docs" / "room.md").read_text("utf-8")
NOT_HERE: Final = frozenset({"--public"})
"""Options that the tests do not run: they let other machines in."""


def lines_of(text: str) -> list[str]:
    """The numbered lines before the first heading of a part."""
    begin = text.partition("\n## ")[0]
    return [line for line in begin.splitlines() if re.match(r"\d+\. ", line)]


def commands_of(lines: list[str]) -> list[list[str]]:
    """What the lines say to type, in words."""
    found = re.findall(r"`(askance [^`]+)`", "\n".join(lines))
    return [shlex.split(command) for command in found]


def options_of(words: list[str]) -> set[str]:
    return {word for word in words if word.startswith("--")}


def faults_of(text: str) -> list[str]:
    """What is wrong with a page that begins so."""
    lines = lines_of(text)
    faults = [] if [line.split(".")[0] for line in lines] == [str(n) for n in range(1, 11)] else ["are not ten lines"]
    run = [shlex.split(part) for line in re.findall(r"^\$ (.*askance .*)$", text, re.MULTILINE) for part in parts(line)]
    for command in commands_of(lines):
        name = [word for word in command[1:3] if re.fullmatch("[a-z]+", word)]
        alike = [each for each in run if each[1 : 1 + len(name)] == name]
        if not any(options_of(command) - NOT_HERE <= options_of(each) for each in alike):
            faults.append(f"is not run below: {shlex.join(command)}")
        known = askance(*name, "--help").stdout
        faults += [f"is no option of {name}: {option}" for option in options_of(command) if option not in known]
    return faults


def parts(line: str) -> list[str]:
    """The calls of the command in a line of a shell."""
    return re.findall(r"askance [^;|<>&]+", line)


def test_the_evening_has_ten_lines_whose_commands_there_are_and_are_run() -> None:
    assert "(tutorial.md#install)" in lines_of(TEXT)[0]
    assert [words[1] for words in commands_of(lines_of(TEXT))] == ["ask", "study"]
    assert faults_of(TEXT) == []


def test_the_control_a_line_that_is_missing_and_commands_that_are_not_there_are_found() -> None:
    wrong = TEXT.replace("10. ", "Then: ").replace("--epsilon 2 --public", "--epsilon 2 --publicc")

    assert len(faults_of(wrong)) == 3


def test_what_is_said_of_the_bit_is_so_for_this_channel() -> None:
    [epsilon] = [words[words.index("--epsilon") + 1] for words in commands_of(lines_of(TEXT)) if "--epsilon" in words]
    weights = json_of("channel", "describe", "--kind", "binary", "--epsilon", epsilon)["weights"]
    right, wrong = (round(100 * int(weight) / (1 << 64)) for weight in weights[0])

    assert re.findall(r"with (\d+) %", "\n".join(lines_of(TEXT))) == [str(right), str(wrong)]
    assert f"has cost each of you ε = {epsilon}, once" in TEXT
