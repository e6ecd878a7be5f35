"""`askance users` on a real server: numbers, tokens that only their owner can read, and what is refused beforehand."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from askance_client import UnreachableError
from askance_lab.commands.shared.exit_codes import EXIT_OF, Exit
from askance_lab.commands.shared.operator_token import operator_token
from askance_lab.commands.shared.private_files import PrivateFile
from askance_lab.remote.management import NotOperatorError
from askance_protocol.errors import AskanceError, DataError, UsageError
from tests.harness.servers import ServerProcess, serving
from tests.lab.commands.calls import askance, at_home, invoke


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("users") / "data", "--cap", "2") as process:
        yield process


@pytest.fixture(autouse=True)
def there(shared: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of its own, in which the commands find the server and its data directory by the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASKANCE_SERVER", shared.url)
    monkeypatch.setenv("ASKANCE_DATABASE", str(shared.directory))


def count() -> int:
    found: int = json.loads(invoke("users", "count", "--json"))["users"]
    return found


def test_users_are_enrolled_and_their_tokens_are_theirs(shared: ServerProcess) -> None:
    before = count()
    said = json.loads(invoke("users", "enrol", 3, "--json"))
    lines = [line.split(",") for line in Path("users.csv").read_text().splitlines()]

    assert said == {
        "schema_version": 1,
        "users": 3,
        "numbers": [[before, before + 2]],
        "simulated": False,
        "file": "users.csv",
    }
    assert [int(user) for user, _ in lines] == list(range(before, before + 3))
    for user, token in lines:
        assert shared.get("/v1/me", token=token).json()["user"] == int(user)
    assert stat.S_IMODE(Path("users.csv").stat().st_mode) == 0o600
    assert f"users {before + 3} .. {before + 4} enrolled" in invoke("users", "enrol", 2, "--out", "b.csv")
    counted = json.loads(invoke("users", "count", "--json"))
    assert counted["users"] == before + 5
    assert counted["kinds"]["real"] >= 5


def test_a_range_enrols_exactly_those_numbers_or_nobody() -> None:
    before = count()
    invoke("users", "enrol", f"{before}-{before + 2}", "--out", "a.csv")
    with pytest.raises(UsageError, match=f"the next number is {before + 3}"):
        invoke("users", "enrol", f"{before}-{before + 2}", "--out", "b.csv")

    assert count() == before + 3
    assert not Path("b.csv").exists()


def test_simulated_users_need_no_tokens() -> None:
    before = count()
    assert "enrolled" in invoke("users", "enrol", 20_000, "--simulated")
    assert (count(), list(Path().iterdir())) == (before + 20_000, [])


def test_more_users_than_one_request_has_tokens_for_get_theirs_in_pieces() -> None:
    before = count()
    said = json.loads(invoke("users", "enrol", 10_001, "--simulated", "--out", "many.csv", "--json"))

    assert said["numbers"] == [[before, before + 10_000]]
    assert len(Path("many.csv").read_text().splitlines()) == 10_001


def test_a_renewed_token_makes_the_old_one_void(shared: ServerProcess) -> None:
    invoke("users", "enrol", 2)
    [(user, old), (_, other)] = [line.split(",") for line in Path("users.csv").read_text().splitlines()]
    invoke("users", "renew", user, "--out", "new.csv")
    [(same, new)] = [line.split(",") for line in Path("new.csv").read_text().splitlines()]

    assert same == user
    assert [shared.get("/v1/me", token=token).status_code for token in (old, new, other)] == [401, 200, 200]
    invoke("users", "renew", f"{user}-{int(user) + 1}")
    assert len(Path("renewed.csv").read_text().splitlines()) == 2


def test_an_invitation_lets_in_as_many_as_it_says(shared: ServerProcess) -> None:
    invoke("users", "invite", 2, "--for", "10min", "--out", "invitation.token")
    token = Path("invitation.token").read_text().strip()

    codes = [shared.post("/v1/enrolments", token=token).status_code for _ in range(3)]
    assert codes == [201, 201, 403]
    assert stat.S_IMODE(Path("invitation.token").stat().st_mode) == 0o600


def test_tokens_are_printed_where_that_is_asked_for_and_nowhere_else(shared: ServerProcess) -> None:
    assert invoke("users", "enrol", 1, "--out", "-").count("user.") == 1
    run = askance("users", "enrol", 2, "--out", "two.csv")

    assert run.returncode == 0, run.stderr
    tokens = [line.split(",")[1] for line in Path("two.csv").read_text().splitlines()]
    # The control: these are tokens of the server.
    assert all(shared.get("/v1/me", token=token).status_code == 200 for token in tokens)
    log = (shared.directory.parent / f"{shared.directory.name}.log").read_text()
    for secret in (*tokens, shared.operator):
        assert secret not in run.stdout + run.stderr + log


SILLY: list[tuple[list[object], str]] = [
    (["enrol", "0"], "users"),
    (["enrol", "-3"], ""),
    (["enrol", "many"], "no number of users"),
    (["enrol", "9-3"], "no number of users"),
    (["enrol", "5", "--out", "no/such/place.csv"], "cannot be written"),
    (["enrol", "5", "--out", "-", "--json"], "exclude each other"),
    (["invite", "2", "--out", "t", "--for", "soon"], "no length of time"),
    (["invite", "2", "--out", "t", "--for", "0s"], "no length of time"),
    (["invite", "2", "--out", "t", "--for", "99999d"], "seconds"),
    (["renew", "x"], "no number of users"),
    (["renew", "1-99999999"], "more than"),
    (["renew", "999999999"], "404"),
]


@pytest.mark.parametrize(("arguments", "said"), SILLY)
def test_what_cannot_be_meant_is_refused_in_one_line_and_changes_nothing(
    capsys: pytest.CaptureFixture[str], arguments: list[object], said: str
) -> None:
    before = count()
    code, _, errors = at_home(capsys, "users", *arguments)

    assert code == Exit.USAGE, errors
    assert said in errors
    assert "Traceback" not in errors
    assert not errors.startswith("askance:") or errors.count("\n") == 1
    assert (count(), list(Path().iterdir())) == (before, [])


def test_a_file_that_is_there_is_never_written_over() -> None:
    Path("users.csv").write_text("precious")
    before = count()
    with pytest.raises(DataError, match="is there already"):
        invoke("users", "enrol", 2)

    assert (Path("users.csv").read_text(), count()) == ("precious", before)


# ---------------------------------------------------------------------------------------------------------- its token


def test_the_operators_token_is_found_in_a_file_the_environment_or_beside_a_server_of_this_machine(
    shared: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "named.token"
    named.write_text("operator.named\n")
    assert operator_token(None, shared.url) == shared.operator
    monkeypatch.setenv("ASKANCE_OPERATOR_TOKEN", " operator.given\n")
    assert operator_token(None, shared.url) == "operator.given"
    assert operator_token(named, shared.url) == "operator.named"


def test_the_token_of_this_machines_server_is_shown_to_no_other_machine(
    shared: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="--operator-token"):
        operator_token(None, "https://askance.example")
    assert operator_token(None, "http://localhost:1") == shared.operator
    monkeypatch.setenv("ASKANCE_DATABASE", str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="askance-data"):
        operator_token(None, shared.url)


@pytest.mark.parametrize("text", ["", "two words", "line\nline", "tökén", "x" * 5000])
def test_what_is_no_token_is_said_before_anything_is_asked(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.token"
    file.write_text(text)
    with pytest.raises(DataError) as refused:
        invoke("users", "count", "--operator-token", file)

    assert not text or text not in str(refused.value)
    assert EXIT_OF[refused.value.code] is Exit.USAGE


def test_a_wrong_token_is_refused_with_what_to_do(shared: ServerProcess, tmp_path: Path) -> None:
    forged = tmp_path / "forged.token"
    forged.write_text(shared.operator[:-4] + "AAAA")
    for file in (forged, shared.directory / "enrolment.token"):
        with pytest.raises(NotOperatorError, match="--operator-token") as refused:
            invoke("users", "count", "--operator-token", file)
        assert EXIT_OF[refused.value.code] is Exit.USAGE


def test_a_server_that_is_away_is_said_and_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKANCE_SERVER", "http://127.0.0.1:9")
    with pytest.raises(UnreachableError) as away:
        invoke("users", "enrol", 2)

    assert EXIT_OF[away.value.code] is Exit.UNREACHABLE
    assert list(Path().iterdir()) == []


def test_what_was_written_stays_when_something_fails_later(tmp_path: Path) -> None:
    def fails(path: Path, text: str) -> None:
        file = PrivateFile.new(path)
        try:
            file.write(text)
            raise AskanceError("later")
        finally:
            file.close()

    for name, text, there_ in (("kept", "1,token\n", True), ("empty", "", False)):
        with pytest.raises(AskanceError):
            fails(tmp_path / name, text)
        assert (tmp_path / name).exists() is there_
