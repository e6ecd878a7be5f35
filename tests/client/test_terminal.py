"""Nothing that a server says steers a client's terminal: each name and text of its documents is replaced in turn."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from askance_client import Problem, Refusal, User, Wallet, refusals
from askance_client.transport import documents
from askance_lab.commands.client import echo_results
from askance_lab.commands.shared.exit_codes import report
from askance_lab.remote.study_client import unwrap
from askance_protocol import canonical, errors, values
from askance_protocol.errors import AskanceError
from tests.client.liar import Json, Liar
from tests.client.people import HERS, answers, enrolled, run, wallet_at
from tests.protocol.studies import part, study
from tests.protocol.test_text import steers

HOSTILE = "x\x1b[2J\x9b31m\u202e\naskance: all is well\r" + "y" * 100
NAME = "x\x1b[2J\x07\naskance: all is well"
"""The names of members are ASCII, as these characters are."""
FORGED = "askance: all is well"


@pytest.fixture
def wallet(tmp_path: Path) -> Generator[Wallet]:
    opened = wallet_at(tmp_path)
    yield opened
    opened.close()


def hostile_forms(document: Any) -> Generator[Any]:
    """Copies of a document, each with one text or one name replaced."""
    match document:
        case dict():
            yield {**document, NAME: 1}
            for name, value in document.items():
                yield {(NAME if key == name else key): each for key, each in document.items()}
                for form in hostile_forms(value):
                    yield {**document, name: form}
        case list():
            for place, value in enumerate(document):
                for form in hostile_forms(value):
                    yield [*document[:place], form, *document[place + 1 :]]
        case str():
            yield HOSTILE
        case _:
            pass


def says(name: str) -> Callable[[Liar, Any], None]:
    def plant(liar: Liar, said: Any) -> None:
        liar.says[name] = lambda _: canonical.dumps(said)

    return plant


def shown(wallet: Wallet, liar: Liar, capsys: pytest.CaptureFixture[str]) -> str:
    """All that one who takes part by the command line gets to see."""
    try:
        echo_results(answers(User(HERS, wallet), liar), as_json=False)
    except AskanceError as error:
        report(error)
    out, err = capsys.readouterr()
    return out + err


def steered(text: str) -> list[str]:
    """Lines that steer a terminal, or that the server has written."""
    return [line for line in text.split("\n") if steers(line) or line.startswith(FORGED)]


def documents_of(liar: Liar, name: str) -> Any:
    """What an honest server says."""
    if name == "bulletin":
        return {"head": liar.head, "length": len(liar.entries), "entries": liar.entries}
    return canonical.loads(canonical.dumps(liar._me()))


@pytest.mark.parametrize("name", ["bulletin", "me"])
def test_no_text_of_a_document_steers_her_terminal(
    wallet: Wallet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    liar = Liar.of(study(simulated=False))
    enrolled(User(HERS, wallet), liar)
    liar.ask(part())
    forms = list(hostile_forms(documents_of(liar, name)))

    def seen() -> list[str]:
        texts = []
        for form in forms:
            says(name)(liar, form)
            texts.append(shown(wallet, liar, capsys))
        return texts

    texts = seen()
    assert [line for text in texts for line in steered(text)] == []
    if name == "me":
        return  # Nothing of an account is ever quoted, so there is nothing that a fault could let through.
    assert any(r"\x1b[2J" in text for text in texts)

    # The control: errors and refusals as they were.
    for module in (errors, values, refusals):
        monkeypatch.setattr(module, "printable", lambda text, _=0: text)
    assert [line for text in seen() for line in steered(text)] != []


def test_no_text_of_a_problem_steers_her_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    document: Json = {"type": "urn:askance:problem:conflict", "title": "No", "status": 409, "detail": "d", "next": "n"}
    for form in hostile_forms(document):
        problem = documents.read_problem(409, canonical.dumps(form))
        for what in (problem, Refusal(documents.Reason.UNREADABLE, f"{problem.status} {problem.name}")):
            with pytest.raises(AskanceError) as raised:
                unwrap(what)
            report(raised.value)
        assert steered(capsys.readouterr().err) == []


def test_a_problem_of_another_kind_is_as_harmless(wallet: Wallet) -> None:
    liar = Liar.of(study(simulated=False))
    for name in ("reports", "me", "bulletin"):
        body = canonical.dumps({"type": "urn:askance:problem:" + HOSTILE, "detail": HOSTILE})
        liar.says[name] = lambda _, body=body: httpx.Response(409, content=body)
    enrolled(User(HERS, wallet), liar)

    async def entries() -> object:
        async with liar.server() as server:
            return await server.entries(liar.id, -1)

    said = run(entries())
    assert isinstance(said, Problem)
    assert steers(said.name + said.detail) == []
    assert steers(repr(answers(User(HERS, wallet), liar))) == []
