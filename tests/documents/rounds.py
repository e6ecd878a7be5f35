"""Sentences that say "two", "second" or "rounds", and the rounds of learners that they claim.

Theory of operation
-------------------
A sentence about "a second round" is wrong if its learner was measured with six. So each text (documents, notebook 4,
the help of every command) is split into sentences, and each sentence with a trigger word is *classified*:

- It claims a number of rounds ("two rounds", "in one round", "up to six rounds"). Each claim belongs to a learner: the
  strategy that the sentence names last before it, else first behind it; if it names none, any that its section names.
  The claim holds if the measured rounds of that strategy, as the commands' JSON rows have them, are those.
- Or rounds.toml lists a part of the sentence, with the reason why it is no claim about a learner's rounds.

A sentence that is neither is a fault. So is a part in rounds.toml that stands nowhere.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LISTED: Final = Path(__file__).with_name("rounds.toml")
TRIGGER: Final = re.compile(r"\b(?:two|twice|second|rounds?)\b", re.IGNORECASE)
STRATEGY: Final = re.compile(r"\bmasked-parity(?:-(?:two-rounds|pooled|noninteractive|until-sure|weak))?\b(?!-)")
_COUNT: Final = {"one": 1, "single": 1, "two": 2, "second": 2, "three": 3, "third": 3, "four": 4, "five": 5, "six": 6}
_NUMBER: Final = rf"(?:{'|'.join(_COUNT)}|\d+)"
CLAIM: Final = re.compile(rf"(?P<most>up to )?\b(?P<number>{_NUMBER})[ -]rounds?\b", re.IGNORECASE)
CLASS: Final = re.compile(
    r"(?:learners?|strategy|strategies|the one|nobody) (?:in|of|with) one round"
    r"|one round, (?:nobody|no learner|proved)",
    re.IGNORECASE,
)
"""Every learner that takes one round, which is what the proofs are about: nothing is measured of them."""
HELD: Final = re.compile(r"rounds=2|(?:held|limited) to two rounds", re.IGNORECASE)
"""A learner that may take more, and is kept to two rounds by its parameter."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The rounds that runs of one strategy took, by the rows of commands."""

    fewest: int
    most: int

    def holds(self, most: bool, number: int) -> bool:
        """Whether it took exactly so many rounds; or, if `most`, up to so many and not always as many."""
        return self.most == number and (most or self.fewest == number)


def of_rows(rows: Iterable[Mapping[str, object]]) -> dict[str, Measured]:
    """The measured rounds of each strategy. A row with a parameter of its own has that in its name."""
    taken = dict[str, list[int]]()
    for row in rows:
        own = f" rounds={row['most_rounds']}" if row.get("held") else ""
        taken.setdefault(f"{row['strategy']}{own}", []).append(int(str(row["rounds"])))
    return {name: Measured(min(rounds), max(rounds)) for name, rounds in taken.items()}


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, and the part of the text that it stands in, from one heading to the next."""

    text: str
    section: str


def sections(text: str) -> Iterator[str]:
    """Text without blocks that are run, which the tests compare with what is printed."""
    plain = re.sub(r"^```.*?^```", "\n", text, flags=re.MULTILINE | re.DOTALL)
    yield from re.split(r"^(?=#{1,4} )", plain, flags=re.MULTILINE)


def sentences(text: str) -> Iterator[Sentence]:
    """Every sentence, cell of a table, item of a list, heading and words of a picture."""
    for section in sections(text):
        words = re.sub(r"<img[^>]*alt=\"([^\"]*)\"[^>]*>", r"\1", section)
        words = re.sub(r"!?\[([^\]]*)\]\([^)\s]*\)", r"\1", words).replace("`", "").replace("*", "")
        for part in re.split(r"\n\s*\n|\n(?=[-|#] ?)|\s\|\s|(?<=[.?!:;])\s+(?=[A-Z(“\"\d]|masked-)", words):
            if found := " ".join(part.strip("|# \n").split()):
                # What stands at the top of a page is about all of it.
                yield Sentence(found, text if section.startswith("# ") else section)


def faults(
    name: str, text: str, measured: Mapping[str, Measured], listed: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Sentences of one text that no measured learner bears out and nobody has listed."""
    parts = listed.get(name, {})
    return [
        f"{name}: {fault}: {each.text}"
        for each in sentences(text)
        if TRIGGER.search(STRATEGY.sub("", each.text)) and (fault := _fault(each, measured, parts))
    ]


def stale(texts: Mapping[str, str], listed: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What is listed and stands in no sentence of its text any more."""
    found = list[str]()
    for name, parts in listed.items():
        said = [each.text for each in sentences(texts[name])]
        found += [f"{name}: {part}" for part in parts if not any(part in each for each in said)]
    return found


def _fault(sentence: Sentence, measured: Mapping[str, Measured], parts: Mapping[str, str]) -> str:
    """Why a sentence is no true claim; nothing if it is one, or is listed."""
    text = sentence.text
    if any(part in text for part in parts):
        return ""
    names = list(STRATEGY.finditer(text))
    claims = [
        each for each in CLAIM.finditer(text) if not any(name.start() < each.start() < name.end() for name in names)
    ]
    if not claims:
        return "is not classified: name a number of rounds and a learner, or list it in rounds.toml"
    for claim in claims:
        if CLASS.search(text, max(0, claim.start() - 30), claim.end() + 20):
            continue
        most, number = bool(claim["most"]), _COUNT.get(claim["number"].lower()) or int(claim["number"])
        if names:
            near = {next((each for each in reversed(names) if each.end() <= claim.start()), names[0])[0]}
        else:
            near = set(STRATEGY.findall(sentence.section))
        if number == 2 and HELD.search(text):
            near = {f"{each} rounds=2" if each.endswith("-pooled") else each for each in near}
        if not any(each in measured and measured[each].holds(most, number) for each in near):
            return f"“{claim[0]}” was not measured of {', '.join(sorted(near)) or 'any learner that its section names'}"
    return ""


def listed() -> dict[str, dict[str, str]]:
    """Parts of sentences that claim no rounds of a learner, by text, with the reason."""
    found = tomllib.loads(LISTED.read_text("utf-8"))
    return {name: {part: why for why, parts in reasons.items() for part in parts} for name, reasons in found.items()}
