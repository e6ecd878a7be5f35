"""Forged exports: genuine files, changed in one way each, so that two readers may read them in two ways or read a lie.

A file is taken apart into members, values and numbers as they are written, one of these is changed, and it is written
again. Then the digests of the manifest are redone: a forger can do that without making another history.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from askance_server.core.archive import zipped
from askance_server.core.export import BULLETIN, FILES, MANIFEST, RESULT, TALLIES

Files = dict[str, bytes]
EPOCH: Final = (1980, 1, 1, 0, 0, 0)


@dataclass
class Raw:
    """A value as it is written."""

    text: str


@dataclass
class Members:
    """An object: its members in their order, each as often as it stands there."""

    pairs: list[tuple[str, Any]]


def parsed(text: str) -> Any:
    """The tree of a text, with each number as it is written."""
    return json.loads(text, object_pairs_hook=Members, parse_float=Raw, parse_int=Raw, parse_constant=Raw)


def written(tree: Any, indent: int | None, depth: int = 1) -> str:
    """The text of a tree: over several lines as the derived files are, or in one as an entry is."""
    if isinstance(tree, Raw):
        return tree.text
    if isinstance(tree, Members):
        colon = ":" if indent is None else ": "
        parts = [f"{_text(name)}{colon}{written(value, indent, depth + 1)}" for name, value in tree.pairs]
        ends = "{}"
    elif isinstance(tree, list):
        parts, ends = [written(value, indent, depth + 1) for value in tree], "[]"
    else:
        return _text(tree)
    if not parts or indent is None:
        return ends[0] + ",".join(parts) + ends[1]
    blank = "\n" + " " * indent * depth
    return ends[0] + blank + f",{blank}".join(parts) + "\n" + " " * indent * (depth - 1) + ends[1]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


Holder: TypeAlias = "tuple[list[Any], int]"
"""Where a value stands: a list, or the members of an object, and the place there."""


def _inside(tree: Any) -> Iterator[Any]:
    yield tree
    for each in (
        [value for _, value in tree.pairs] if isinstance(tree, Members) else tree if isinstance(tree, list) else ()
    ):
        yield from _inside(each)


def _objects(tree: Any, least: int = 1) -> list[Members]:
    return [each for each in _inside(tree) if isinstance(each, Members) and len(each.pairs) >= least]


def _values(tree: Any, kinds: type | tuple[type, ...]) -> list[Holder]:
    """The places of all values of these kinds."""
    found: list[Holder] = []
    for each in _inside(tree):
        if isinstance(each, Members):
            found += [(each.pairs, number) for number, (_, value) in enumerate(each.pairs) if isinstance(value, kinds)]
        elif isinstance(each, list):
            found += [(each, number) for number, value in enumerate(each) if isinstance(value, kinds)]
    return found


def _at(holder: Holder) -> Any:
    value = holder[0][holder[1]]
    return value[1] if isinstance(value, tuple) else value


def _put(holder: Holder, value: Any) -> None:
    old = holder[0][holder[1]]
    holder[0][holder[1]] = (old[0], value) if isinstance(old, tuple) else value


# ------------------------------------------------------------------------------------------------- changes of a tree

TreeEdit: TypeAlias = Callable[[Any, random.Random], bool]
"""Changes a tree; whether it could."""
FALSE: Final = ("false", "0", '"another"', "null", "NaN", "-Infinity", "1e999", '"\\ud800"', "[" * 70 + "]" * 70, "{}")


def _twice(tree: Any, draw: random.Random, *, first: bool) -> bool:
    """A member stands twice: a lie, and the truth."""
    pairs = draw.choice(_objects(tree)).pairs
    number = draw.randrange(len(pairs))
    lie = (pairs[number][0], Raw(draw.choice(FALSE)))
    pairs.insert(number if first else draw.randint(number + 1, len(pairs)), lie)
    return True


def _twice_alike(tree: Any, draw: random.Random) -> bool:
    pairs = draw.choice(_objects(tree)).pairs
    pairs.insert(draw.randint(0, len(pairs)), draw.choice(pairs))
    return True


def _order(tree: Any, draw: random.Random) -> bool:
    objects = _objects(tree, 2)
    if not objects:
        return False
    pairs = draw.choice(objects).pairs
    one, other = draw.sample(range(len(pairs)), 2)
    pairs[one], pairs[other] = pairs[other], pairs[one]
    return True


def _notation(tree: Any, draw: random.Random) -> bool:
    """A number, the same, written in another way."""
    places = _values(tree, Raw)
    if not places:
        return False
    place = draw.choice(places)
    text = _at(place).text
    if re.search(r"[.e]", text):
        ways = [text + "0" if "e" not in text else text.replace("e", "E"), f"{float(text):.25e}"]
    else:
        ways = [text + ".0", text + "e0", text + "E+0", *(["-0"] if text == "0" else []), "0" + text, "+" + text]
    _put(place, Raw(draw.choice([way for way in ways if way != text])))
    return True


def _escape(tree: Any, draw: random.Random) -> bool:
    """A character of a text, the same, written in another way."""
    places = [place for place in _values(tree, str) if _at(place)]
    place = draw.choice(places)
    text = _at(place)
    number = draw.randrange(len(text))
    parts = [json.dumps(part, ensure_ascii=False)[1:-1] for part in (text[:number], text[number + 1 :])]
    code = f"{ord(text[number]):04{draw.choice('xX')}}" if ord(text[number]) < 1 << 16 else ""
    if not code:
        return False
    _put(place, Raw(f'"{parts[0]}\\u{code}{parts[1]}"'))
    return True


def _value(tree: Any, draw: random.Random) -> bool:
    """A value, changed to another."""
    place = draw.choice(_values(tree, (Raw, str, bool, type(None))))
    value = _at(place)
    if isinstance(value, bool):
        _put(place, Raw(draw.choice(["null", "0", "1", str(not value).lower()])))
    elif value is None:
        _put(place, Raw(draw.choice(["false", "0", '""'])))
    elif isinstance(value, str):
        at = draw.randrange(len(value) + 1)
        _put(place, value[:at] + draw.choice("x7 \u00e9\u0000") + value[at:])
    elif re.search(r"[.e]", value.text):
        number = float(value.text)
        _put(place, Raw(repr(number + draw.choice([-1, 1]) * max(1.0, abs(number)) * 10.0 ** -draw.randint(1, 6))))
    else:
        _put(place, Raw(str(int(value.text) + draw.choice([-1, 1, 1 << 53, -(1 << 64)]))))
    return True


def _more(tree: Any, draw: random.Random) -> bool:
    pairs = draw.choice(_objects(tree)).pairs
    pairs.insert(draw.randint(0, len(pairs)), (f"more{draw.randrange(10)}", draw.choice([None, "x", Raw("1")])))
    return True


def _less(tree: Any, draw: random.Random) -> bool:
    pairs = draw.choice(_objects(tree)).pairs
    del pairs[draw.randrange(len(pairs))]
    return True


def _list(tree: Any, draw: random.Random) -> bool:
    """An element of a list too many or too few."""
    lists = [each for each in _inside(tree) if isinstance(each, list) and each]
    if not lists:
        return False
    found = draw.choice(lists)
    if draw.random() < 0.5:
        found.insert(draw.randrange(len(found)), draw.choice(found))
    else:
        del found[draw.randrange(len(found))]
    return True


TREE_EDITS: Final[dict[str, TreeEdit]] = {
    "a member twice, the lie first": lambda tree, draw: _twice(tree, draw, first=True),
    "a member twice, the lie last": lambda tree, draw: _twice(tree, draw, first=False),
    "a member twice, alike": _twice_alike,
    "members in another order": _order,
    "a number in another notation": _notation,
    "an escape": _escape,
    "another value": _value,
    "a member more": _more,
    "a member less": _less,
    "a list longer or shorter": _list,
}


# -------------------------------------------------------------------------------------------------- changes of a text


def _bom(text: bytes, draw: random.Random) -> bytes:
    return draw.choice([b"\xef\xbb\xbf" + text, text.decode().encode("utf-16"), text.decode().encode("utf-16-be")])


def _padding(text: bytes, draw: random.Random) -> bytes:
    """White space, or something else, before, behind or between what there is."""
    blank = draw.choice([b" ", b"\t", b"\r", b"\n", b" " * 1000, b"\n" * 70_000, b"\0", b"\x0c", b"\xc2\xa0"])
    gaps = [0, len(text), *(match.start() for match in re.finditer(rb'[{}\[\]:,](?=[{\["0-9])', text))]
    gap = draw.choice(gaps)
    return text[:gap] + blank + text[gap:]


def _line_ends(text: bytes, draw: random.Random) -> bytes:
    places = [match.start() for match in re.finditer(b"\n", text)]
    place = draw.choice(places)
    other = draw.choice([b"\r\n", b"\r", b"\n\n", b"\n\r", b"", b"\x0b", b"\n \n", b"\x85"])
    return text[:place] + other + text[place + 1 :]


def _lines(text: bytes, draw: random.Random) -> bytes:
    """Lines that are swapped, doubled or left out."""
    lines = text.splitlines(keepends=True)
    one, other = draw.sample(range(len(lines)), 2)
    match draw.randrange(3):
        case 0:
            if lines[one] == lines[other]:
                del lines[one]
            else:
                lines[one], lines[other] = lines[other], lines[one]
        case 1:
            lines.insert(other, lines[one])
        case _:
            del lines[one]
    return b"".join(lines)


def _spelling(text: bytes, draw: random.Random) -> bytes:
    """The whole file, or one of its lines, written by other rules."""
    rules: dict[str, Any] = draw.choice([{"indent": 2}, {"indent": "\t"}, {"separators": (", ", ": ")}, {"indent": 0}])
    lines = text.splitlines() if text.count(b'"form":"askance.entry"') else [text]
    number = draw.randrange(len(lines))
    again = json.dumps(json.loads(lines[number]), ensure_ascii=False, **rules).encode()
    return b"".join(line + b"\n" for line in [*lines[:number], again, *lines[number + 1 :]])


TEXT_EDITS: Final[dict[str, Callable[[bytes, random.Random], bytes]]] = {
    "a byte order mark": _bom,
    "padding": _padding,
    "line ends": _line_ends,
    "lines moved": _lines,
    "other white space": _spelling,
}


# ----------------------------------------------------------------------------------------------- changes of a .zip


def archive(files: list[tuple[zipfile.ZipInfo, bytes]], comment: bytes = b"") -> bytes:
    """An archive of these files."""
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w") as out:
        warnings.simplefilter("ignore")
        for info, data in files:
            out.writestr(info, data, info.compress_type)
        out.comment = comment
    return made.getvalue()


def described(files: Files) -> list[tuple[zipfile.ZipInfo, bytes]]:
    """The files as `study export` describes them."""
    found: list[tuple[zipfile.ZipInfo, bytes]] = []
    for name, data in files.items():
        info = zipfile.ZipInfo(name, EPOCH)
        info.compress_type = zipfile.ZIP_DEFLATED
        found.append((info, data))
    return found


def _zip_comment(files: Files, draw: random.Random) -> bytes:
    return archive(described(files), draw.randbytes(draw.randint(1, 60)).replace(b"PK", b"pk"))


def _file_comment(files: Files, draw: random.Random) -> bytes:
    found = described(files)
    draw.choice(found)[0].comment = b"learned: nothing"
    return archive(found)


def _zip_order(files: Files, draw: random.Random) -> bytes:
    found = described(files)
    one, other = draw.sample(range(len(found)), 2)
    found[one], found[other] = found[other], found[one]
    return archive(found)


def _zip_twice(files: Files, draw: random.Random) -> bytes:
    """A file twice: which of them is read is for the reader to choose."""
    found = described(files)
    info, data = draw.choice(found)
    lie = zipfile.ZipInfo(info.filename, EPOCH)
    lie.compress_type = zipfile.ZIP_DEFLATED
    found.insert(draw.randrange(len(found)), (lie, data.replace(b"1", b"2", 1)))
    if draw.random() < 0.5:
        found.pop(0 if found[0][0] is not lie else 1)
    return archive(found)


def _zip_more(files: Files, draw: random.Random) -> bytes:
    name = draw.choice(
        ["notes.txt", "a/", "../manifest.json", "Result.json", "result.json ", "x" * 300, "result.json\0.txt"]
    )
    return archive([*described(files), (zipfile.ZipInfo(name, EPOCH), b"false")])


def _zip_less(files: Files, draw: random.Random) -> bytes:
    found = described(files)
    del found[draw.randrange(len(found))]
    return archive(found)


def _zip_around(files: Files, draw: random.Random) -> bytes:
    """Bytes before or behind the archive."""
    whole, more = zipped(files), draw.choice([b"\0", b"PK\3\4", b"{}\n", draw.randbytes(100)])
    return draw.choice([more + whole, whole + more, whole + zipped(files), zipped({BULLETIN: b"false\n"}) + whole])


def _zip_described(files: Files, draw: random.Random) -> bytes:
    """What is said of a file: its time, its rights, its system, another way to pack, a field of one's own."""
    found = described(files)
    info = draw.choice(found)[0]
    match draw.randrange(6):
        case 0:
            info.date_time = (draw.randint(1981, 2099), 2, 3, 4, 6, 6)
        case 1:
            info.external_attr = draw.choice([0o777 << 16, 0o600 << 16 | 1, 0o120777 << 16])
        case 2:
            info.create_system = draw.choice([1, 7, 19])
        case 3:
            info.compress_type = draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
        case 4:
            info.extra = b"\x99\x99\4\0" + draw.randbytes(4)
        case _:
            info.filename = draw.choice(["./", "/", "x/", " ", "\u00e9"]) + info.filename
    return archive(found)


def _zip_two_ways(files: Files, draw: random.Random) -> bytes:
    """A file that its own header describes otherwise than the directory."""
    whole = bytearray(zipped(files))
    name = draw.choice(FILES).encode()
    begin = whole.index(name) - 30
    match draw.randrange(3):
        case 0:
            whole[begin + 30] ^= 0x20
        case 1:
            whole[begin + draw.choice([4, 6, 10, 12, 14, 18, 22])] ^= 1
        case _:
            directory = whole.rindex(name) - 46
            whole[directory + draw.choice([4, 6, 8, 12, 16, 34, 36, 38, 45])] ^= 1
    return bytes(whole)


def _zip_packed(files: Files, draw: random.Random) -> bytes:
    """Bytes that hide behind the end of what is packed, described alike in both places."""
    whole = zipped(files)
    hidden = draw.randbytes(draw.randint(1, 50)).replace(b"PK", b"pk")
    with zipfile.ZipFile(io.BytesIO(whole)) as out:
        infos = out.infolist()
        pick = draw.randrange(len(infos))
        info, start = infos[pick], out.start_dir
    place = info.header_offset + 30 + len(info.filename) + info.compress_size
    # Of what is packed, or between two files.
    return _shifted(whole, infos, pick, place, hidden, start, grown=draw.random() < 0.7)


def _shifted(
    whole: bytes, infos: list[zipfile.ZipInfo], pick: int, place: int, hidden: bytes, start: int, *, grown: bool
) -> bytes:
    """The archive with bytes put in at a place, and every length and place told as it then is."""
    made = bytearray(whole[:place] + hidden + whole[place:])
    if grown:
        at = infos[pick].header_offset + 18
        made[at : at + 4] = (infos[pick].compress_size + len(hidden)).to_bytes(4, "little")
    at = start + len(hidden)
    for number, info in enumerate(infos):
        if number == pick and grown:
            made[at + 20 : at + 24] = (info.compress_size + len(hidden)).to_bytes(4, "little")
        if number > pick:
            made[at + 42 : at + 46] = (info.header_offset + len(hidden)).to_bytes(4, "little")
        at += 46 + len(info.filename)
    made[-6:-2] = (start + len(hidden)).to_bytes(4, "little")
    return bytes(made)


ZIP_EDITS: Final[dict[str, Callable[[Files, random.Random], bytes]]] = {
    "a .zip with a comment": _zip_comment,
    "a .zip with a comment of a file": _file_comment,
    "a .zip in another order": _zip_order,
    "a .zip with a file twice": _zip_twice,
    "a .zip with a file more": _zip_more,
    "a .zip with a file less": _zip_less,
    "a .zip with bytes around it": _zip_around,
    "a .zip that is described otherwise": _zip_described,
    "a .zip that is described in two ways": _zip_two_ways,
    "a .zip with hidden bytes": _zip_packed,
}


# ---------------------------------------------------------------------------------------------------------- forgeries


@dataclass(frozen=True)
class Forgery:
    """A forged export: the files of a folder, or a .zip."""

    kind: str
    files: Files = field(repr=False)
    zip: bytes | None = field(default=None, repr=False)
    name: str = ""


def sealed(files: Files) -> Files:
    """Redo the digests of the manifest, which stays as it is written."""
    text = files[MANIFEST].decode()
    for name in (BULLETIN, TALLIES, RESULT):
        text = re.sub(rf'("{name}": )"[0-9a-f]{{64}}"', rf'\1"{hashlib.sha256(files[name]).hexdigest()}"', text)
    last = files[BULLETIN].splitlines()[-1:]
    head = hashlib.sha256(last[0] if last else b"").hexdigest()
    return {**files, MANIFEST: re.sub(r'("head": )"[0-9a-f]{64}"', rf'\1"{head}"', text).encode()}


def forgeries(genuine: list[Files], seed: int, number: int) -> Iterator[Forgery]:
    """So many forged exports: each kind in its turn, of an export, a file and a place that are drawn."""
    draw = random.Random(seed)
    kinds = [*TREE_EDITS, *TEXT_EDITS, *ZIP_EDITS]
    made = 0
    while made < number:
        kind, files = kinds[made % len(kinds)], draw.choice(genuine)
        if kind in ZIP_EDITS:
            forged = Forgery(kind, files, ZIP_EDITS[kind](files, draw))
        else:
            name = draw.choice(FILES)
            text = edited(kind, name, files[name], draw)
            if text is None or text == files[name]:
                continue
            changed = {**files, name: text}
            # A forger who does not redo the digests is found by them alone.
            forged = Forgery(kind, changed if name == MANIFEST or draw.random() < 0.1 else sealed(changed), name=name)
        made += 1
        yield forged


def edited(kind: str, name: str, text: bytes, draw: random.Random) -> bytes | None:
    """A file, changed in this way in one place; None where it has no such place."""
    if kind in TEXT_EDITS:
        return TEXT_EDITS[kind](text, draw)
    if name != BULLETIN:
        tree = parsed(text.decode())
        return written(tree, 1).encode() + b"\n" if TREE_EDITS[kind](tree, draw) else None
    lines = text.decode().splitlines()
    number = draw.randrange(len(lines))
    tree = parsed(lines[number])
    if not TREE_EDITS[kind](tree, draw):
        return None
    lines[number] = written(tree, None)
    return "".join(line + "\n" for line in lines).encode("utf-8", "surrogatepass")
