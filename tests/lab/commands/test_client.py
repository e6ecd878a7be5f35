"""`askance client`: one person takes part within her budget, and her example stays in its file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from askance_client import Answered, History, Reason, Refusal, RemoteError, Server
from askance_client.consent import Spending
from askance_lab.commands.client import exit_of
from askance_lab.commands.shared.consent_text import consent_text
from askance_lab.commands.shared.exit_codes import Exit
from askance_protocol import canonical
from askance_protocol.budget import MICRO
from askance_protocol.errors import AskanceError, DataError, UsageError
from askance_protocol.rounds import Cohort, read_entry
from askance_protocol.schema import RealField, Schema
from tests.client.liar import Liar, problem
from tests.harness.servers import ServerProcess
from tests.lab.commands.calls import COMMAND, askance, invoke, token_options
from tests.lab.commands.terminals import Typist, on_terminal
from tests.lab.commands.two_faced import ASKS_SECRET, ASKS_VALUE, SECRET, VALUE, keeps, serving_liar
from tests.protocol.studies import study


def test_one_person_takes_part_with_a_row_of_her_file_and_then_has_nothing_left(
    server: ServerProcess, tmp_path: Path
) -> None:
    people = tmp_path / "people.csv"
    people.write_text("value,name\n0.5,Anna\n-0.25,Berta\n")
    (tmp_path / "fields.json").write_bytes(VALUE.to_bytes())
    agreed = ["--schema", tmp_path / "fields.json", "--yes"]
    mine = ["client", "--server", server.url, "--data", people, "--row", 2, *agreed, "--wallet"]
    mine += [tmp_path / "berta.wallet"]
    enrolment = token_options(server)[2:]

    nothing = askance(*mine, "--cap", "0.9", *enrolment, "--wait", 0)
    assert (nothing.returncode, "no study appeared" in nothing.stderr) == (Exit.USAGE, True)

    server.enrol(1)
    study = server.study()
    refused = askance(*mine, "--study", study["id"], "--once", "--json")
    assert refused.returncode == Exit.BUDGET_REFUSED
    assert [each["reason"] for each in json.loads(refused.stdout)["rounds"]] == ["beyond-cap"]

    assert askance(*mine, "--cap", 2, "--study", study["id"], "--once").returncode == Exit.USAGE
    mine[-1] = tmp_path / "other.wallet"
    late = askance(*mine, "--cap", 1, *enrolment, "--study", study["id"], "--once")
    assert late.returncode == Exit.OK
    assert "nothing was asked of you" in late.stdout  # She enrolled after the round was planned.


def test_a_study_is_answered_by_a_person_who_waited_for_it(server: ServerProcess, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("value\n0.5\n")
    (tmp_path / "fields.json").write_bytes(VALUE.to_bytes())
    command = [
        *COMMAND,
        "client",
        "--schema",
        str(tmp_path / "fields.json"),
        "--yes",
        "--server",
        server.url,
        "--data",
        str(people),
        "--wallet",
        str(tmp_path / "w"),
    ]
    command += ["--cap", "1", "--json", *map(str, token_options(server)[2:])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        while "askance_users 1" not in server.get("/metrics").text:
            assert waiting.poll() is None
        study = server.study()
        told, _ = waiting.communicate(timeout=60)

    assert waiting.returncode == Exit.OK
    [answered] = json.loads(told)["rounds"]
    assert answered["result"] == "answered"
    assert server.get(f"/v1/studies/{study['id']}").json()["state"] == "finished"
    assert "0.5" not in told


def test_exit_codes_tell_her_budget_from_a_lie() -> None:
    assert exit_of([Answered("a" * 64, 1)]) == Exit.OK
    assert exit_of([Refusal(Reason.BEYOND_CAP, "")]) == Exit.BUDGET_REFUSED
    assert exit_of([Answered("a" * 64, 1), Refusal(Reason.TWO_HISTORIES, "")]) == Exit.CHECK_FAILED


def test_a_new_wallet_wants_its_cap_in_the_words_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "me.csv").write_text("value\n0.5\n")
    with pytest.raises(UsageError, match="say what it may ever spend: --cap 1"):
        invoke("client", "--data", tmp_path / "me.csv", "--wallet", tmp_path / "none.wallet")


# -------------------------------------------------------------------------------------------- consent to what she named


class Anna:
    """A person with a file that has more columns than she wants to be asked about."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "me.csv").write_text("value,secret\n0.5,1\n")
        (path / "enrolment.token").write_text("enrolment.token")
        self.value = self.declares(VALUE)

    def declares(self, schema: Schema) -> Path:
        """A file of fields."""
        file = self.path / f"{schema.fields[0].name}.json"
        file.write_bytes(schema.to_bytes())
        return file

    def options(self, url: str, *more: object) -> list[object]:
        """The command and its options."""
        files = ["--data", self.path / "me.csv", "--wallet", self.path / "wallet", "--cap", 1]
        return ["client", "--server", url, *files, "--enrolment-token", self.path / "enrolment.token", "--once", *more]

    def rounds(self, url: str, *more: object, code: int = 0) -> list[dict[str, object]]:
        """What comes of her rounds."""
        rounds: list[dict[str, object]] = json.loads(invoke(*self.options(url, "--json", *more), code=code))["rounds"]
        return rounds


@pytest.fixture
def anna(tmp_path: Path) -> Anna:
    return Anna(tmp_path)


def test_the_study_that_she_names_is_answered_and_no_other(anna: Anna) -> None:
    """A server may tell another study, with a cap of 500, wherever it is asked for hers."""
    named, other = keeps(VALUE, ASKS_VALUE), keeps(VALUE, ASKS_VALUE, title="Another", cap=500 * MICRO)
    with serving_liar(other) as url:
        [refused] = anna.rounds(url, "--study", named.id, "--yes", code=Exit.CHECK_FAILED)

        assert refused["reason"] == "other-study"
        assert other.bodies == []
        assert not any(request.url.path.endswith("/me") for request in other.requests)


def test_one_who_believes_the_servers_document_answers_another_study(
    anna: Anna, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: version 0.1 took the study's name from what the server said of it."""
    named, other = keeps(VALUE, ASKS_VALUE), keeps(VALUE, ASKS_VALUE, title="Another", cap=500 * MICRO)
    monkeypatch.setattr("askance_lab.commands.client.study_digits", lambda _: other.id)
    with serving_liar(other) as url:
        [answered] = anna.rounds(url, "--study", named.id, "--yes")

        assert answered["result"] == "answered"
        assert len(other.bodies) == 1


@pytest.mark.parametrize("named", [True, False], ids=["by its name", "as the next one"])
def test_a_column_that_she_has_not_declared_is_asked_for_in_vain(anna: Anna, named: bool) -> None:
    liar = keeps(SECRET, ASKS_SECRET)
    with serving_liar(liar) as url:
        study = ["--study", liar.id] if named else []
        [refused] = anna.rounds(url, *study, "--schema", anna.value, "--yes", code=Exit.CHECK_FAILED)
        # Her wallet has kept what she declared.
        [again] = anna.rounds(url, *study, "--yes", code=Exit.CHECK_FAILED)

        assert refused == again
        assert (refused["reason"], refused["detail"]) == ("other-schema", "you have not declared secret")
        assert liar.bodies == []


def test_one_who_takes_her_fields_from_the_server_tells_it_of_any_column(
    anna: Anna, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: so did version 0.1."""
    liar = keeps(SECRET, ASKS_SECRET)
    monkeypatch.setattr("askance_lab.commands.shared.table_options.read_schema", lambda _: SECRET)
    with serving_liar(liar) as url:
        assert anna.rounds(url, "--schema", anna.value, "--yes")[0]["result"] == "answered"
        assert len(liar.bodies) == 1


def test_what_she_declared_and_named_is_answered(anna: Anna) -> None:
    liar = keeps(VALUE, ASKS_VALUE)
    with serving_liar(liar) as url:
        [answered] = anna.rounds(url, "--schema", anna.value, "--yes")

        assert answered["result"] == "answered"
        assert len(liar.bodies) == 1


def test_fields_with_other_values_than_declared_are_refused(anna: Anna) -> None:
    finer = Schema(fields=(RealField(name="value", low=-1, high=1, denominator=100_000),))
    liar = keeps(finer, ASKS_VALUE)
    with serving_liar(liar) as url:
        [refused] = anna.rounds(url, "--schema", anna.value, "--yes", code=Exit.CHECK_FAILED)

        assert (refused["reason"], refused["detail"]) == ("other-schema", "you have not declared value")


def test_the_first_study_that_she_agrees_to_declares_her_fields(anna: Anna) -> None:
    first, second = keeps(VALUE, ASKS_VALUE), keeps(SECRET, ASKS_SECRET)
    with serving_liar(first) as url:
        assert anna.rounds(url, "--study", first.id, "--yes")[0]["result"] == "answered"
    with serving_liar(second) as url:
        [refused] = anna.rounds(url, "--study", second.id, "--yes", "--moved", code=Exit.CHECK_FAILED)

        assert refused["detail"] == "you have not declared secret"
        assert second.bodies == []


def test_another_declaration_than_her_wallets_is_refused(anna: Anna) -> None:
    liar = keeps(VALUE, ASKS_VALUE)
    with serving_liar(liar) as url:
        anna.rounds(url, "--schema", anna.value, "--yes")
        with pytest.raises(AskanceError, match="fields"):
            anna.rounds(url, "--schema", anna.declares(SECRET), "--yes")


def test_without_a_terminal_she_has_to_agree_beforehand_and_to_what_she_names(anna: Anna) -> None:
    liar = keeps(VALUE, ASKS_VALUE)
    with serving_liar(liar) as url:
        with pytest.raises(UsageError, match="on a terminal, and there is none") as silent:
            anna.rounds(url, "--schema", anna.value)
        with pytest.raises(UsageError, match="nothing that you have named") as unnamed:
            anna.rounds(url, "--yes")
        with pytest.raises(UsageError, match="no name of a study"):
            anna.rounds(url, "--yes", "--study", "../../v1/me")

    assert "--yes" in silent.value.remedy
    assert "--schema" in unnamed.value.remedy
    assert liar.requests == []


def test_the_first_digits_name_a_study(anna: Anna) -> None:
    """The eight that `study list` prints. With --yes alone they name whatever study a server makes that begins so."""
    liar = keeps(VALUE, ASKS_VALUE)
    with serving_liar(liar) as url:
        with pytest.raises(UsageError, match=f"--study: names any study that begins so .*--study {liar.id}"):
            anna.rounds(url, "--yes", "--study", liar.id[:8])
        assert liar.bodies == []
        [answered] = anna.rounds(url, "--yes", "--study", liar.id[:8], "--schema", anna.value)

    assert answered["result"] == "answered"


def test_digits_of_no_study_and_of_several_are_refused_with_those_there_are(
    anna: Anna, server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = ["abcd" + digit * 60 for digit in "01"]

    async def studies(_: Server) -> list[dict[str, str]]:
        return [{"id": each, "state": "running"} for each in ids]

    monkeypatch.setattr(Server, "studies", studies)
    with pytest.raises(AskanceError, match=r"2 studies begin so \(give more digits: abcd00000000, abcd11111111\)"):
        anna.rounds(server.url, "--yes", "--study", "abcd", "--schema", anna.value)
    with pytest.raises(AskanceError, match="no study there begins with dcba"):
        anna.rounds(server.url, "--yes", "--study", "dcba", "--schema", anna.value)


@pytest.mark.parametrize("where", ["before", "behind"])
def test_her_own_row_is_read_and_no_other(anna: Anna, where: str) -> None:
    """A file of many: what others hold may be broken, and tells nothing of it."""
    row = {"before": 58_000, "behind": 1}[where]
    rows = ["no number,x"] * 58_000
    rows[row - 1] = "0.5,1"
    (anna.path / "me.csv").write_text("\n".join(["value,secret", *rows]) + "\n")
    liar = keeps(VALUE, ASKS_VALUE)
    with serving_liar(liar) as url:
        [answered] = anna.rounds(url, "--yes", "--study", liar.id, "--row", row)
        assert answered["result"] == "answered"
        # The control, and a row that is not there.
        (anna.path / "wallet").unlink()
        with pytest.raises(DataError, match="row 2 "):
            anna.rounds(url, "--yes", "--study", liar.id, "--row", 2)
        with pytest.raises(DataError, match="has 58,000 rows, and no row 58001"):
            anna.rounds(url, "--yes", "--study", liar.id, "--row", 58_001)


def test_a_study_that_is_not_there_is_an_error_of_its_own(anna: Anna) -> None:
    liar = keeps(VALUE, ASKS_VALUE)
    liar.says["bulletin"] = lambda _: problem(404, "not-found")
    with serving_liar(liar) as url, pytest.raises(RemoteError, match="404 not-found"):
        anna.rounds(url, "--yes", "--study", liar.id)


def test_a_study_that_is_listed_without_a_name_is_not_looked_for(anna: Anna) -> None:
    liar = keeps(VALUE, ASKS_VALUE)
    with serving_liar(liar) as url, pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(liar), "id", "../../v1/me")
        with pytest.raises(RemoteError, match="without a name"):
            anna.rounds(url, "--schema", anna.value, "--yes")


def test_a_file_that_declares_nothing_is_named_before_anything_is_asked(anna: Anna) -> None:
    (anna.path / "value.json").write_text('{"fields":[]}')
    with pytest.raises(DataError, match="fields") as caught:
        anna.rounds("http://127.0.0.1:9", "--schema", anna.value, "--yes")

    assert str(anna.value) in caught.value.where


# ---------------------------------------------------------------------------------------------------------- a terminal


def agreeing(command: list[object], *answers: str) -> tuple[int, str]:
    """Run the command on a terminal, typing an answer to each question: its exit code, and all that is shown."""
    run = on_terminal([*COMMAND, *command], Typist(answers=list(answers)))
    return run.code, run.shown


@pytest.mark.slow
def test_she_reads_what_is_asked_and_decides(anna: Anna) -> None:
    liar = keeps(VALUE, ASKS_VALUE, title="Sleep \x1b[2J\u202e well")
    with serving_liar(liar) as url:
        command = anna.options(url, "--study", liar.id)
        code, shown = agreeing(command, "n")
        assert code == Exit.OK
        assert "nothing was drawn, and nothing was sent" in shown
        assert liar.bodies == []
        for told in (
            r"study      Sleep \x1b[2J\u202e well",
            f"named      {liar.id}",
            "fields     value: a number from -1 to 1, in steps of 1/1000",
            "questions  round 1, for ε = 1: the value of value, from -1 to 1",
            "it looks at value, and one noisy number leaves this machine",
            "price      ε = 1 at most in this study; your wallet spends ε = 1 in all, and 1 is left",
        ):
            assert told in shown
        assert "\x1b[2J" not in shown

        code, shown = agreeing(command, "y")
        assert (code, len(liar.bodies)) == (Exit.OK, 1)
        assert "answered: ε = 1" in shown
        # Who has answered has agreed: she is not asked again, and the same report is known.
        code, shown = agreeing(command)
        assert (code, "[y/N]" in shown, len(liar.bodies)) == (Exit.OK, False, 1)


# ------------------------------------------------------------------------------------------------------- what she reads


def read_by(liar: Liar, user: int = 3) -> str:
    """The text for a user with a wallet of ε = 2 that has spent .5."""
    history = History(liar.id).extended([read_entry(canonical.dumps(entry)) for entry in liar.entries])
    assert isinstance(history, History)
    return consent_text(history, user, Spending(2 * MICRO, {"1" * 64: MICRO // 2}, 0))


def test_each_open_round_is_told_and_the_part_that_is_hers() -> None:
    liar = keeps(VALUE, ASKS_VALUE, cap=500 * MICRO)
    liar.ask(ASKS_VALUE, cohort=Cohort(first_user=4, users=10))
    liar.ask(ASKS_VALUE.model_copy(update={"charge": 1}))
    liar.ask(ASKS_VALUE, ASKS_VALUE)
    said = read_by(liar)

    assert "questions  round 1, for ε = 1: the value of value" in said
    assert "round 2: you are not asked" in said
    assert "round 3: refused, unsound-round: parts[0].charge: 1 micro-ε is charged" in said
    assert "round 4, for ε = 1, one of 2 that were dealt by a public coin: the value of value" in said
    assert "more rounds may follow, 100 at most" in said
    assert said.endswith("price      ε = 500 at most in this study; your wallet spends ε = 2 in all, and 1.5 is left")


def test_a_study_that_asks_nothing_now_says_so() -> None:
    liar = Liar.of(study(simulated=False, example=SECRET, interactive=False))

    assert "questions  none is asked now\nprice" in read_by(liar)
