"""An export: a study as files that anybody can verify, with nothing but these files and this program.

`bulletin.jsonl` is the bulletin, a line for each entry in its canonical form: the SHA-256 of a line, without its end,
is the digest that the next line carries as `previous`, and that of the last is the head. `tallies.json` and
`result.json` say for readers what follows from it. `manifest.json` names the study, its head, and the SHA-256 of each
file. All of it is made from the bulletin alone, and so it is verified: made again, and compared.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

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
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


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
    return {**files, MANIFEST: _written(_manifest(study, files))}


def zipped(files: Mapping[str, bytes]) -> bytes:
    """The files of an export as one. Without the time at which it was made: the same study is the same file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def verify_files(
    files: Mapping[str, bytes], strategies: Strategies, pinned: Pinned = Pinned(), tell: Tell = tell_nobody
) -> VerifiedStudy:
    """Verify an export, or a bulletin by itself; VerificationError names the file and the entry that are wrong."""
    if set(files) not in ({BULLETIN}, set(FILES)):
        wrong = sorted(set(files) ^ set(FILES))
        what = "is missing" if wrong[0] in FILES else "is no file of an export"
        raise VerificationError(what, where=wrong[0], remedy=f"an export has {', '.join(FILES)}")
    with refusals_at(BULLETIN):
        study = verify_bulletin(_entries(files[BULLETIN]), strategies, tell)
        if not study.entries:
            raise VerificationError("has no entry")
    for name, due in ((TALLIES, _tallies), (RESULT, _result)):
        if name in files:
            tell(f"verifying {name}", 0, 0)
            with refusals_at(name):
                _compare(_read(files[name]), due(study), "")
    if MANIFEST in files:
        with refusals_at(MANIFEST):
            _compare(_read(files[MANIFEST]), _manifest(study, files), "")
    _compare_pins(study, pinned)
    return study


def _compare_pins(study: VerifiedStudy, pinned: Pinned) -> None:
    if pinned.study not in (None, study.study.digest()):
        raise VerificationError(f"it is of study {study.study.digest()}, and not of {pinned.study}", where=BULLETIN)
    heads = [entry.digest() for entry in study.entries]
    if pinned.head is not None and pinned.head not in heads:
        what = f"no entry has the digest {pinned.head}"
        raise VerificationError(f"{what}: this is another history", where=BULLETIN, remedy="ask who is right")


def _entries(data: bytes) -> list[Entry]:
    if data and not data.endswith(b"\n"):
        raise VerificationError("its last line has no end: it was cut", where=f"entry {data.count(chr(10).encode())}")
    entries: list[Entry] = []
    for number, line in enumerate(data.splitlines()):
        with refusals_at(f"entry {number}"):
            entry = read_entry(line)
            if entry.to_bytes() != line:
                raise VerificationError("is not written in its canonical form")
            entries.append(entry)
    return entries


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


def _manifest(study: VerifiedStudy, files: Mapping[str, bytes]) -> dict[str, Any]:
    digests = {name: hashlib.sha256(files[name]).hexdigest() for name in FILES if name != MANIFEST}
    return {
        "form": "askance.export",
        "version": VERSION,
        "study": study.study.digest(),
        "head": study.bulletin.head,
        "length": study.bulletin.length,
        "sha256": digests,
    }


def _written(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def _read(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise VerificationError("is not JSON, or was cut") from None


def _compare(found: Any, due: Any, where: str) -> None:
    """Refuse what differs, naming the place that differs first."""
    kinds = cast("tuple[object, object]", (type(found), type(due)))
    if kinds == (dict, dict):
        for name in [*due, *(name for name in found if name not in due)]:
            place = f"{where}.{name}".lstrip(".")
            if name not in found or name not in due:
                raise VerificationError("is missing" if name in due else "is not a member of this form", where=place)
            _compare(found[name], due[name], place)
    elif kinds == (list, list) and len(found) == len(due):
        for number, pair in enumerate(zip(found, due, strict=True)):
            _compare(*pair, f"{where}[{number}]")
    elif not same(found, due):
        raise VerificationError("is not what follows from the bulletin", where=where or "document")
