"""An export: a study as files that anybody can verify, with nothing but these files and this program.

`bulletin.jsonl` is the bulletin, a line for each entry in its canonical form: the SHA-256 of a line, without its end,
is the digest that the next line carries as `previous`, and that of the last is the head. `tallies.json` and
`result.json` say for readers what follows from it. `manifest.json` names the study, its head, and the SHA-256 of each
file. All of it is made from the bulletin alone, and so it is verified: made again, and compared.

Each file has one form. A file whose members stand twice, in another order or in another notation is refused: two
readers might read it in two ways. Only fractions may differ, by `NEAR`, as those of two machines do. No more of a file
is read than its bulletin can lead to, so that a few bytes do not fill a memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import mul
from typing import Any, Final, TypeAlias, cast

from askance_protocol import canonical
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.rounds import Entry, read_entry
from askance_server.core.estimates import MOST_ESTIMATES, first_estimates
from askance_server.core.study import Strategies
from askance_server.core.verification import VerificationError, VerifiedStudy, refusals_at, same, verify_bulletin

BULLETIN: Final = "bulletin.jsonl"
TALLIES: Final = "tallies.json"
RESULT: Final = "result.json"
MANIFEST: Final = "manifest.json"
FILES: Final = (BULLETIN, TALLIES, RESULT, MANIFEST)
VERSION: Final = 1
MOST_BULLETIN: Final = 64 << 20
"""Bytes of a bulletin: what a client reads of one study."""
_GROWTH: Final = 4
_SLACK: Final = 1024
"""A derived file may be so many times as long as it is here: 0.5 may be 0.49999999999999994 on another machine."""

_MARKS: Final = 1 << 20
"""Brackets, colons and commas of one entry; more of the answers to a round that has more counts. An empty list is two
bytes long, and takes a hundred times as much memory when it is read."""

FileReader: TypeAlias = Callable[[int], bytes | bytearray]
"""Reads a file that has at most so many bytes; VerificationError if it has more."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """What somebody knows of a study from elsewhere: None of each that she does not."""

    study: str | None = None
    head: str | None = None


def export_files(entries: Sequence[Entry], strategies: Strategies, tell: Tell = tell_nobody) -> dict[str, bytes]:
    """The files of a study; VerificationError if its bulletin cannot be true."""
    study = verify_bulletin(entries, strategies, tell)
    files = {BULLETIN: b"".join(entry.to_bytes() + b"\n" for entry in entries)}
    files |= {TALLIES: _written(_tallies(study)), RESULT: _written(_result(study))}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return {**files, MANIFEST: _written(_manifest(study, digests))}


def verify_files(
    files: Mapping[str, bytes | FileReader],
    strategies: Strategies,
    pinned: Pinned = Pinned(),
    tell: Tell = tell_nobody,
) -> VerifiedStudy:
    """Verify an export, or a bulletin by itself; VerificationError names the file and the entry that are wrong.

    Each file is read once, when its turn comes, and held no longer than that.
    """
    if set(files) not in ({BULLETIN}, set(FILES)):
        wrong = sorted(set(files) ^ set(FILES))
        what = "is missing" if wrong[0] in FILES else "is no file of an export"
        raise VerificationError(what, where=wrong[0], remedy=f"an export has {', '.join(FILES)}")
    with refusals_at(BULLETIN):
        data = _read(files[BULLETIN], MOST_BULLETIN)
        study = _verify_entries(data, strategies, tell)
    digests = {BULLETIN: hashlib.sha256(data).hexdigest()}
    del data
    derived: dict[str, Callable[[], dict[str, Any]]] = {
        TALLIES: lambda: _tallies(study),
        RESULT: lambda: _result(study),
        MANIFEST: lambda: _manifest(study, digests),
    }
    for name in FILES[1:] if MANIFEST in files else ():
        tell(f"verifying {name}", 0, 0)
        with refusals_at(name):
            digests[name] = _verify_derived(files[name], derived[name]())
    _compare_pins(study, pinned)
    return study


def check_longest(size: int, most: int) -> None:
    """Refuse a file that is longer than its reader was told."""
    if size > most:
        raise VerificationError(f"has more than the {most:,} bytes that it can have")


def _read(file: bytes | FileReader, most: int) -> bytes | bytearray:
    if not isinstance(file, bytes):
        return file(most)
    check_longest(len(file), most)
    return file


def _verify_entries(data: bytes | bytearray, strategies: Strategies, tell: Tell) -> VerifiedStudy:
    """Each entry is verified before the next is read: of what does not follow, nothing is held."""
    study, part, length = VerifiedStudy(strategies), "verifying entries", data.count(b"\n")
    if data and not data.endswith(b"\n"):
        raise VerificationError("its last line has no end: it was cut", where=f"entry {length}")
    tell(part, 0, length)
    for number, line in enumerate(_lines(data)):
        with refusals_at(f"entry {number}"):
            _check_marks(line, max(_MARKS, 4 * _counts(study)))
            entry = read_entry(line)
            if entry.to_bytes() != line:
                raise VerificationError("is not written in its canonical form")
        study.append(entry)
        tell(part, number + 1, length)
    if not study.entries:
        raise VerificationError("has no entry")
    return study


def _counts(study: VerifiedStudy) -> int:
    """Number of counts that answer the last round."""
    last = next(reversed(study.rounds.values()), None)
    return 0 if last is None else sum(map(mul, last.rows, last.limits))


def _lines(data: bytes | bytearray) -> Iterator[bytes]:
    """The lines, one at a time: a list of those of a file of line ends would take forty times its length."""
    begin = 0
    while begin < len(data):
        end = data.index(b"\n", begin)
        yield bytes(memoryview(data)[begin:end])
        begin = end + 1


def _marks(text: bytes) -> int:
    return sum(map(text.count, (b"[", b"{", b":", b",")))


def _check_marks(text: bytes, most: int) -> None:
    if (found := _marks(text)) > most:
        raise VerificationError(f"has {found:,} brackets, colons and commas; it can have {most:,}")


def _verify_derived(file: bytes | FileReader, due: dict[str, Any]) -> str:
    """Compare a file with what follows from the bulletin. Returns its SHA-256."""
    text = _written(due)
    data = bytes(_read(file, _GROWTH * len(text) + _SLACK))
    if data != text:
        # From another machine, or false: the comparison names the place.
        _check_marks(data, 2 * _marks(text) + _SLACK)
        found = canonical.loads_with_fractions(data, limit=len(data))
        _compare(found, due, "")
        if data != _written(found):
            raise VerificationError("is not written as askance study export writes it")
    return hashlib.sha256(data).hexdigest()


def _compare_pins(study: VerifiedStudy, pinned: Pinned) -> None:
    if pinned.study not in (None, study.study.digest()):
        raise VerificationError(f"it is of study {study.study.digest()}, and not of {pinned.study}", where=BULLETIN)
    heads = [entry.digest() for entry in study.entries]
    if pinned.head is not None and pinned.head not in heads:
        what = f"no entry has the digest {pinned.head}"
        raise VerificationError(f"{what}: this is another history", where=BULLETIN, remedy="ask who is right")


def _tallies(study: VerifiedStudy) -> dict[str, Any]:
    rounds = [
        {
            "number": round_.spec.number,
            "round": round_.id,
            "target": round_.spec.target,
            "received": study.closed[round_.id].received if round_.id in study.closed else None,
            "closed": study.closed[round_.id].reason if round_.id in study.closed else None,
            "tallies": [tally.counts.tolist() for tally in study.answered.get(round_.id, ())],
        }
        for round_ in study.rounds.values()
    ]
    return {"form": "askance.tallies", "version": VERSION, "study": study.study.digest(), "rounds": rounds}


def _result(study: VerifiedStudy) -> dict[str, Any]:
    end, learned = study.ended, None if study.ended is None else study.ended.hypothesis
    answered = [(study.rounds[id_], tallies) for id_, tallies in study.answered.items()]
    found = first_estimates(study.study, study.replay.strategy, answered, MOST_ESTIMATES)
    return {
        "form": "askance.result",
        "version": VERSION,
        "study": study.study.digest(),
        "title": study.study.title,
        "state": study.bulletin.state.value,
        "cause": None if end is None or end.cause is None else end.cause.value,
        "reason": "" if end is None else end.reason,
        "text": None if learned is None else learned.text,
        "hypothesis": None if learned is None else dict(learned.value),
        "estimates": [asdict(each) for each in found.records],
        "estimates_left_out": found.left_out,
    }


def _manifest(study: VerifiedStudy, digests: Mapping[str, str]) -> dict[str, Any]:
    return {
        "form": "askance.export",
        "version": VERSION,
        "study": study.study.digest(),
        "head": study.bulletin.head,
        "length": study.bulletin.length,
        "sha256": dict(digests),
    }


def _written(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def _compare(found: Any, due: Any, where: str) -> None:
    """Refuse what differs, naming the place that differs first."""
    kinds = cast("tuple[object, object]", (type(found), type(due)))
    if kinds == (dict, dict):
        for name in [*due, *(name for name in found if name not in due)]:
            place = f"{where}.{name}".lstrip(".")
            if name not in found or name not in due:
                raise VerificationError("is missing" if name in due else "is not a member of this form", where=place)
            _compare(found[name], due[name], place)
        if list(found) != list(due):
            raise VerificationError("has its members in another order", where=where or "document")
    elif kinds == (list, list) and len(found) == len(due):
        for number, pair in enumerate(zip(found, due, strict=True)):
            _compare(*pair, f"{where}[{number}]")
    elif not same(found, due):
        raise VerificationError("is not what follows from the bulletin", where=where or "document")
