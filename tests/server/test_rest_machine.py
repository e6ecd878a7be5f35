"""50,000 requests in random order, by users, operators and gateways, against a model that foretells each answer.

The model is dictionaries: who is enrolled with which token, which studies and rounds there are, what each user has
reported and paid. It takes from the server only what nobody can foretell: ids, tokens, and what a strategy publishes.
Of each request it says the status and the problem, and of a batch how many reports meet which. Never is there a 5xx,
each refusal is a problem document, and in the end accounts, tallies, states and metrics are those of the model.

`ASKANCE_TORTURE=1` sends 50,000 requests; each day sees a few hundred.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from askance_protocol.budget import MICRO, limit_from_text
from askance_protocol.reports import ReportBatch, encode_raw
from askance_protocol.rounds import PreparedRound
from askance_server.auth import EnrolmentToken, GatewayToken, Keys, OperatorToken, UserToken
from askance_server.ledger.base import Verdict
from askance_server.ledger.projections import UserBudgets
from askance_server.metrics import STEP
from askance_server.problems import OF_VERDICT, PROBLEMS
from tests.harness.figures import Figures
from tests.harness.servers import Json, Service, is_problem, prepared

TORTURE: Final = os.environ.get("ASKANCE_TORTURE") == "1"
REQUESTS: Final = 50_000 if TORTURE else 600
PER_LIFE: Final = 500 if TORTURE else 300
NOTHING: Final = "0" * 64
STUDY_LIMIT: Final = 5
USER_LIMIT: Final = 80
OVER: Final = {"finished", "failed", "cancelled"}
BAD_REPORTS: Final = [
    *(b"", b"{}", b"[]", b"null", b"1", b'{"outcome":}', b'{"outcome":"1"}', b'{"outcome":true}', b'{"outcome":-1}'),
    *(b'{"outcome":1.0}', b'{"outcome":NaN}', b'{"outcome":1,"user":0}', b'{"outcome":1}{"outcome":1}', b"\xff\xfe"),
    *(b'{"outcome":99999}', b'{"outcome":01}', b'{"outcome":99999999999}', b'{"outcome":1', b'{"outcome":1}\x00'),
]
BAD_BATCHES: Final[list[Json]] = [
    *({}, {"users": [0]}, {"users": [0], "outcomes": []}, {"users": [-1], "outcomes": [0]}),
    *({"users": [0], "outcomes": [True]}, {"users": ["0"], "outcomes": [0]}, {"users": [0], "outcomes": [1 << 40]}),
    *({"users": [0], "outcomes": [0], "more": 1}, {"users": [[0]], "outcomes": [[0]]}),
]
BAD_STUDIES: Final[list[Json]] = [
    *({}, {"title": "t"}, {"title": "", "strategy": "mean"}, {"title": "t", "strategy": "no-such"}),
    *(
        {"title": "t", "strategy": "mean", "parameters": {"epsilon": text}}
        for text in ("0", "-1", "nan", "1e12", "1e999999999")
    ),
    *({"title": "t", "strategy": "mean", "parameters": {"users": each}} for each in ("some", 3, True)),
    {"title": "t", "strategy": "mean", "parameters": {"no_such": 1}},
    {"title": "t", "strategy": "mean", "parameters": {"tolerance": 0.5}},
    {"title": "t", "strategy": "mean", "simulated": "yes"},
    {"title": "t", "strategy": "histogram", "parameters": {"cells": 1}},
    {"title": "t", "strategy": "mean", "more": 1},
    {"title": "t" * 201, "strategy": "mean"},
]
STUDIES: Final[list[tuple[str, Json]]] = [
    ("mean", {"tolerance": "0.4"}),
    ("mean", {"tolerance": "0.4", "denominator": 3}),
    ("histogram", {"cells": 3}),
    ("histogram", {"cells": 40}),
    ("conjunction", {"d": 3, "alpha": "0.5"}),
    ("masked-parity-weak", {"d": 2}),
    ("masked-parity-two-rounds", {"d": 2}),
    ("masked-parity-pooled", {"d": 4}),
]


@dataclass
class Round:
    """A round as it was published, and the reports that were taken."""

    spec: PreparedRound
    study: str
    is_open: bool = True
    reports: dict[int, int] = field(default_factory=dict[int, int])


@dataclass
class Study:
    """A study and its gateway: whom it may speak for."""

    id: str
    simulated: bool
    first: int
    count: int
    gateway: str | None
    over: bool = False
    rounds: list[str] = field(default_factory=list[str])


@dataclass
class LimitedToken:
    """An enrolment token of limited number."""

    token: str
    left: int
    simulated: bool


class Life:
    """One service from its start to its end, and the model of it."""

    def __init__(self, number: int, api: Service, cap: int) -> None:
        self.source, self.api, self.cap = random.Random(number), api, cap
        self.tokens: list[str] = []
        self.void: list[str] = []
        self.epochs: list[int] = []
        self.spent: list[int] = []
        self.kinds: list[str] = []
        self.tickets: list[LimitedToken] = []
        self.studies: dict[str, Study] = {}
        self.rounds: dict[str, Round] = {}
        self.verdicts = Counter[Verdict]()
        self.statuses = Counter[int]()
        self.said = Counter[str]()
        keys = Keys(_key(number))
        self.operators = [api.operator, keys.mint(OperatorToken("second")), keys.mint(OperatorToken("third"))]
        self.enrollers = [api.enrolment, keys.mint(EnrolmentToken("desk"))]
        self.forged = [
            Keys(bytes(range(32))).mint(OperatorToken("second")),
            Keys(bytes(range(32))).mint(UserToken(0, 0)),
            *("", "x", "user.AAAA.AAAA", "operator..", "é", "a" * 3000),
        ]

    # ------------------------------------------------------------------------------------------------- requests

    @property
    def sent(self) -> int:
        """Number of requests so far."""
        return self.statuses.total()

    def ask(self, method: str, path: str, wanted: str | int, token: str | None = None, **more: Any) -> httpx.Response:
        """One request, whose answer is foretold: a status, or the name of a problem."""
        try:
            response = self.api.request(method, path, token=_sendable(token), **more)
        except UnicodeEncodeError:
            response = self.api.request(method, path, token="x", **more)
        return self.hold(f"{method} {path}", response, wanted)

    def hold(self, what: str, response: httpx.Response, wanted: str | int) -> httpx.Response:
        """Hold an answer against what was foretold."""
        self.statuses[response.status_code] += 1
        assert response.status_code < 500, (what, response.text)
        assert response.headers["askance-protocol"] == "1", what
        if isinstance(wanted, int):
            assert response.status_code == wanted, (what, wanted, response.text)
            self.said["ok"] += 1
        else:
            assert response.status_code == PROBLEMS[wanted].status, (what, wanted, response.text)
            is_problem(response, wanted)
            self.said[wanted] += 1
        return response

    def go_on(self) -> None:
        """One random step: mostly what moves a study on, sometimes what nobody should send."""
        steps: list[tuple[int, Callable[[], None]]] = [
            (40, self.report),
            (8, self.bad_report),
            (6, self.report_wrongly),
            (6, self.at_once),
            (10, self.batch),
            (4, self.bad_batch),
            (6, self.create),
            (3, self.bad_study),
            (2, self.cancel),
            (3, self.close),
            (5, self.enrol),
            (3, self.renew),
            (12, self.look),
            (6, self.wrong_door),
            (3, self.nonsense),
        ]
        self.source.choices([step for _, step in steps], [weight for weight, _ in steps])[0]()

    # -------------------------------------------------------------------------------------------------- reports

    def _a_round(self) -> Round | None:
        """Mostly an open one."""
        pick, of_all = self.source, list(self.rounds.values())
        open_ = [each for each in of_all if each.is_open]
        if open_ and pick.random() < 0.85:
            return pick.choice(open_)
        return pick.choice(of_all) if of_all else None

    def _outcome(self, round_: Round) -> int:
        return self.source.randrange(round_.spec.outcomes)

    def decide(self, round_: Round, user: int, outcome: int) -> Verdict:  # noqa: PLR0911 - one return for each verdict
        """What the ledger promises of a report, and its effect on the model."""
        if user >= len(self.tokens):
            return Verdict.UNKNOWN_USER
        made_up_among_real = self.kinds[user] == "simulated" and not round_.spec.study.simulated
        if not round_.spec.asks(user) or made_up_among_real:
            return Verdict.NOT_ASKED
        dealt = round_.spec.question(user).part
        if outcome >= round_.spec.limits[dealt]:
            return Verdict.OUTSIDE
        if user in round_.reports:
            return Verdict.REPEATED if round_.reports[user] == outcome else Verdict.CONFLICT
        if not round_.is_open:
            return Verdict.NOT_OPEN
        charge = round_.spec.spec.parts[dealt].charge
        if self.spent[user] + charge > self.cap:
            return Verdict.OVER_BUDGET
        self.spent[user] += charge
        round_.reports[user] = outcome
        return Verdict.ACCEPTED

    def _told(self, verdict: Verdict) -> str | int:
        self.verdicts[verdict] += 1
        return 200 if verdict <= Verdict.REPEATED else OF_VERDICT[verdict]

    def report(self) -> None:
        """A user reports: once, or once more, the same or not."""
        round_ = self._a_round()
        if round_ is None or not self.tokens:
            return self.create() if self.tokens else self.enrol()
        user, pick = self.source.randrange(len(self.tokens)), self.source
        again = user in round_.reports and pick.random() < 0.7
        outcome = round_.reports[user] if again else self._outcome(round_)
        wanted = self._told(self.decide(round_, user, outcome))
        path = f"/v1/rounds/{round_.spec.id}/reports"
        response = self.ask("POST", path, wanted, self.tokens[user], json={"outcome": outcome})
        if wanted == 200:
            receipt = {"charged": round_.spec.charge_of(user), "round": round_.spec.id, "user": user}
            assert response.json() == receipt
        return self.after(round_)

    def after(self, round_: Round) -> None:
        """Look whether the study has gone on, where the model says that its round is full."""
        if round_.is_open and len(round_.reports) >= round_.spec.spec.target:
            round_.is_open = False
            self.catch_up(self.studies[round_.study])

    def catch_up(self, study: Study) -> None:
        """Read a study whose round was closed: the rounds that there were are as foretold, a new one is noted."""
        document = self.ask("GET", f"/v1/studies/{study.id}", 200).json()
        known = len(study.rounds)
        for place, shown in enumerate(document["rounds"]):
            if place >= known:
                self.rounds[shown["id"]] = Round(prepared(document, place), study.id)
                study.rounds.append(shown["id"])
            round_ = self.rounds[shown["id"]]
            assert (shown["state"] == "open") == round_.is_open, (shown["state"], round_.is_open)
            assert shown["received"] == len(round_.reports)
        study.over = document["state"] in OVER
        assert study.over == (not any(self.rounds[id_].is_open for id_ in study.rounds)), document["state"]
        assert document["paused"] is None

    def bad_report(self) -> None:
        """What is no report is refused before anybody looks at who may pay."""
        round_ = self._a_round()
        if round_ is None or not self.tokens:
            return
        token = self.source.choice([*self.tokens, *self.void])
        path = f"/v1/rounds/{round_.spec.id}/reports"
        body = self.source.choice(BAD_REPORTS)
        wanted = "invalid-report"
        if self.source.random() < 0.2:
            body, wanted = body + b" " * self.source.choice([65, 5000]), "body-too-large"
        self.ask("POST", path, wanted, token, content=body, headers={"Content-Type": "application/json"})

    def report_wrongly(self) -> None:
        """A sound report with a wrong token, to a wrong round, of a wrong kind."""
        round_, pick = self._a_round(), self.source
        if round_ is None or not self.tokens:
            return
        path = f"/v1/rounds/{round_.spec.id}/reports"
        body = json.dumps({"outcome": self._outcome(round_)}).encode()
        token, headers = pick.choice(self.tokens), {"Content-Type": "application/json"}
        match pick.randrange(5):
            case 0:
                wanted, token = "unauthorized", pick.choice([*self.forged, *self.void])
            case 1:
                wanted, token = "forbidden", pick.choice([*self.operators, *self.enrollers])
            case 2:
                wanted, path = "not-found", f"/v1/rounds/{pick.choice([NOTHING, 'x', '%00', 'é', '0' * 65])}/reports"
            case 3:
                wanted, headers = "unsupported-media-type", {"Content-Type": "text/plain"}
            case _:
                wanted, headers = "version-mismatch", {**headers, "Askance-Protocol": pick.choice(["2", "0", "one"])}
        self.ask("POST", path, wanted, token, content=body, headers=headers)

    def at_once(self) -> None:
        """Some users report at the same time, each the same several times, or two different outcomes."""
        round_, pick = self._a_round(), self.source
        if round_ is None or not round_.is_open:
            return
        left = round_.spec.spec.target - len(round_.reports)
        fresh = [user for user in range(len(self.tokens)) if user not in round_.reports and round_.spec.asks(user)]
        if left < 2 or len(fresh) < 2:
            return
        chosen = pick.sample(fresh, min(len(fresh), left - 1, 5))
        requests, whose = list[tuple[str, str, str | None, Json]](), list[tuple[int, int]]()
        for user in chosen:
            first = self._outcome(round_)
            for outcome in pick.choice([[first], [first, first, first], [first, first ^ 1]]):
                path = f"/v1/rounds/{round_.spec.id}/reports"
                requests.append(("POST", path, self.tokens[user], {"json": {"outcome": outcome}}))
                whose.append((user, outcome))
        responses = self.api.together(requests)
        # Of two that differ either may be the first; then the model has decided, and the others follow.
        first_taken = sorted(range(len(whose)), key=lambda place: not responses[place].is_success)
        for place in first_taken:
            user, outcome = whose[place]
            self.hold("at once", responses[place], self._told(self.decide(round_, user, outcome)))
        self.after(round_)

    # -------------------------------------------------------------------------------------------------- batches

    def _gateways(self) -> list[Study]:
        return [study for study in self.studies.values() if study.gateway is not None]

    def batch(self) -> None:
        """A gateway speaks for simulated users: JSON or raw columns, some of whom she may not speak for."""
        pick = self.source
        gateways = [study for study in self._gateways() if study.rounds]
        if not gateways:
            return
        study = pick.choice(gateways)
        round_ = self.rounds[pick.choice(study.rounds)]
        numbers = range(study.first, min(study.first + study.count, len(self.tokens)))
        spoken_for = [user for user in numbers if self.kinds[user] != "real"]
        # Of the last nobody has the number: that is said of each, and refuses nothing else.
        everybody = [*range(len(self.tokens)), len(self.tokens), (1 << 48) - 1]
        among = spoken_for if spoken_for and pick.random() < 0.7 else everybody
        users = [pick.choice(among) for _ in range(pick.choice([0, 1, 3, 10]))]
        beyond = any(user < len(self.tokens) and user not in spoken_for for user in users)
        outcomes = [pick.randrange(round_.spec.outcomes + 2) for _ in users]
        path = f"/v1/rounds/{round_.spec.id}/batches"
        # What a token is not for is refused as a whole; nothing of it is decided.
        verdicts = [] if beyond else [self.decide(round_, *each) for each in zip(users, outcomes, strict=True)]
        wanted: str | int = "forbidden" if beyond else 200
        response = self.ask("POST", path, wanted, study.gateway, **_columns(users, outcomes, raw=pick.random() < 0.5))
        if beyond:
            return
        self.verdicts.update(verdicts)
        told = response.json()
        refused = {OF_VERDICT[each]: verdicts.count(each) for each in Verdict if each > 1 and each in verdicts}
        assert told["accepted"] == verdicts.count(Verdict.ACCEPTED)
        assert told["repeated"] == verdicts.count(Verdict.REPEATED)
        assert told["refused"] == refused
        self.after_batch(round_)

    def after_batch(self, round_: Round) -> None:
        """A batch may bring more than was left: all that it brought counts."""
        self.after(round_)

    def bad_batch(self) -> None:
        """What is no batch, of a gateway that might send one; and a batch of who may not."""
        pick, gateways = self.source, [study for study in self._gateways() if study.rounds]
        if not gateways or not self.rounds:
            return
        study = pick.choice(gateways)
        path = f"/v1/rounds/{study.rounds[0]}/batches"
        token: str | None = study.gateway
        match pick.randrange(6):
            case 0:
                wanted, more = "invalid-request", {"json": pick.choice(BAD_BATCHES)}
            case 1:
                raw = {"Content-Type": "application/octet-stream"}
                content = pick.choice([b"ASKB", b"", b"ASKB" + b"\xff" * 40])
                wanted, more = "invalid-request", {"content": content, "headers": raw}
            case 2:
                wanted, more = "unsupported-media-type", {"content": b"{}", "headers": {"Content-Type": "text/csv"}}
            case 3:
                wanted, more, token = "forbidden", _columns([0], [0]), pick.choice(self.operators + self.enrollers)
            case 4:
                others = [id_ for id_, round_ in self.rounds.items() if round_.study != study.id]
                if not others:
                    return
                wanted, more, path = (
                    "forbidden",
                    _columns([study.first], [0]),
                    f"/v1/rounds/{pick.choice(others)}/batches",
                )
            case _:
                wanted, more, path = "not-found", _columns([study.first], [0]), f"/v1/rounds/{NOTHING}/batches"
        self.ask("POST", path, wanted, token, **more)

    # -------------------------------------------------------------------------------------------------- studies

    def create(self) -> None:
        """An operator opens a study: a round asks, if somebody can pay."""
        pick = self.source
        strategy, own = pick.choice(STUDIES)
        epsilon = pick.choice(["0.01", "0.1", "0.5", "1", "1.5"])
        simulated = pick.random() < 0.6
        asked: Json = {"title": "A study", "strategy": strategy, "simulated": simulated}
        asked["parameters"] = {**own, "users": "all", "epsilon": epsilon}
        users = self._spoken_for()
        first, count = users.start, len(users)
        if simulated and pick.random() < 0.5:
            first, count = pick.randrange(5), pick.randint(1, 20)
            asked["gateway"] = {"first_user": first, "users": count}
        running = sum(not study.over for study in self.studies.values())
        if running >= STUDY_LIMIT:
            self.ask("POST", "/v1/studies", "too-many-studies", pick.choice(self.operators), json=asked)
            return
        if not self._paying(epsilon, simulated=simulated):
            self.ask("POST", "/v1/studies", "too-few-users", pick.choice(self.operators), json=asked)
            return
        document = self.ask("POST", "/v1/studies", 201, pick.choice(self.operators), json=asked).json()
        gateway: str | None = document["gateway_token"]
        assert (gateway is not None) == simulated
        study = self.studies[document["id"]] = Study(document["id"], simulated, first, count, gateway)
        assert document["state"] in {"running", "sealed"}, document
        assert len(document["rounds"]) == 1
        self.catch_up(study)

    def _paying(self, epsilon: str, *, simulated: bool) -> int:
        """How many users a study waits for, of those who can pay its first round."""
        waited_for = {"real", "unknown"}
        if simulated:
            waited_for = {"simulated", "unknown"} & set(self.kinds) or {"real"}
        accounts = zip(self.spent, self.kinds, strict=True)
        return sum(spent + limit_from_text(epsilon) <= self.cap and kind in waited_for for spent, kind in accounts)

    def _spoken_for(self) -> range:
        """For whom a gateway speaks if nothing is said."""
        kind = "simulated" if "simulated" in self.kinds else "unknown"
        users = [user for user, of in enumerate(self.kinds) if of == kind]
        return range(users[0], users[-1] + 1) if users else range(0)

    def bad_study(self) -> None:
        """What cannot be a study is refused, and leaves nothing behind."""
        wanted, more = "invalid-request", {"json": self.source.choice(BAD_STUDIES)}
        running = sum(not study.over for study in self.studies.values())
        if self.source.random() < 0.2:
            wanted, more = "unsupported-media-type", {"content": b"{}", "headers": {"Content-Type": "text/plain"}}
        elif self.source.random() < 0.2:
            body = self.source.choice([b"{", b"\xff", b"[]", b"NaN", b'{"title":' * 900])
            more = {"content": body, "headers": {"Content-Type": "application/json"}}
        elif running >= STUDY_LIMIT and len(more["json"]) > 1 and not _is_malformed(more["json"]):
            # The limit is looked at before the parameters are.
            wanted = "too-many-studies"
        self.ask("POST", "/v1/studies", wanted, self.source.choice(self.operators), **more)

    def _a_study(self) -> Study | None:
        return self.source.choice(list(self.studies.values())) if self.studies else None

    def cancel(self) -> None:
        """An operator cancels a study: none of its rounds takes reports any more."""
        study = self._a_study()
        if study is None:
            return
        wanted: str | int = "study-over" if study.over else 200
        self.ask("POST", f"/v1/studies/{study.id}/cancel", wanted, self.source.choice(self.operators))
        for id_ in study.rounds:
            self.rounds[id_].is_open = False
        self.catch_up(study)
        assert study.over

    def close(self) -> None:
        """An operator closes a round before its time."""
        round_ = self._a_round()
        if round_ is None:
            return
        wanted: str | int = 200 if round_.is_open else "round-not-open"
        self.ask("POST", f"/v1/rounds/{round_.spec.id}/close", wanted, self.source.choice(self.operators))
        round_.is_open = False
        self.catch_up(self.studies[round_.study])

    # ---------------------------------------------------------------------------------------------------- users

    def enrol(self) -> None:
        """New users come, as long as there is room."""
        count = self.source.choice([1, 1, 2, 7])
        token = self.source.choice(self.enrollers)
        if self.source.random() < 0.3:
            self.enrol_by_ticket(count)
            return
        simulated: bool | None = self.source.choice([None, None, True, False])
        kind = {True: "simulated", False: "real", None: "real" if count == 1 else "unknown"}[simulated]
        members = {"users": count} if simulated is None else {"users": count, "simulated": simulated}
        more = {} if members == {"users": 1} and self.source.random() < 0.5 else {"json": members}
        if len(self.tokens) + count > USER_LIMIT:
            self.ask("POST", "/v1/enrolments", "invalid-request", token, **more)
            return
        self._come_in(self.ask("POST", "/v1/enrolments", 201, token, **more).json(), count, kind)

    def enrol_by_ticket(self, count: int) -> None:
        """Users come by a token that lets so many in, of one kind."""
        pick = self.source
        if not self.tickets or pick.random() < 0.3:
            asked: Json = {"users": pick.choice([1, 3, 8]), "seconds": 3600, "simulated": pick.random() < 0.5}
            made = self.ask("POST", "/v1/enrolment-tokens", 201, pick.choice(self.operators), json=asked).json()
            self.tickets.append(LimitedToken(made["token"], asked["users"], asked["simulated"]))
        ticket = pick.choice(self.tickets)
        members: Json = {"users": count}
        if pick.random() < 0.3:
            members["simulated"] = pick.random() < 0.5
        if members.get("simulated", ticket.simulated) != ticket.simulated:
            self.ask("POST", "/v1/enrolments", "forbidden", ticket.token, json=members)
        elif len(self.tokens) + count > USER_LIMIT:
            self.ask("POST", "/v1/enrolments", "invalid-request", ticket.token, json=members)
        elif count > ticket.left:
            self.ask("POST", "/v1/enrolments", "enrolment-over", ticket.token, json=members)
        else:
            ticket.left -= count
            document = self.ask("POST", "/v1/enrolments", 201, ticket.token, json=members).json()
            self._come_in(document, count, "simulated" if ticket.simulated else "real")

    def _come_in(self, document: Json, count: int, kind: str) -> None:
        assert document["user"] == len(self.tokens)
        assert document["cap_micro_epsilon"] == self.cap
        tokens = document["tokens"] or [document["token"]]
        assert len(tokens) == document["users"] == count
        self.tokens += tokens
        self.epochs += [0] * count
        self.spent += [0] * count
        self.kinds += [kind] * count

    def renew(self) -> None:
        """An operator or the user herself makes her tokens void; nobody else can."""
        if not self.tokens:
            return
        pick, user = self.source, self.source.randrange(len(self.tokens))
        path, other = f"/v1/users/{user}/token", (user + 1) % len(self.tokens)
        match pick.randrange(5):
            case 0 if other != user:
                self.ask("POST", path, "forbidden", self.tokens[other])
            case 1:
                self.ask("POST", path, "forbidden", pick.choice(self.enrollers))
            case 2:
                self.ask("POST", f"/v1/users/{len(self.tokens) + 5}/token", "not-found", self.operators[0])
            case _:
                token = pick.choice([self.operators[1], self.tokens[user]])
                renewed = self.ask("POST", path, 200, token).json()
                assert renewed["user"] == user
                assert renewed["token"] != self.tokens[user]
                self.void.append(self.tokens[user])
                self.tokens[user] = renewed["token"]

    # ---------------------------------------------------------------------------------------------------- looks

    def look(self) -> None:
        """Whoever looks sees what the model says."""
        pick, study, round_ = self.source, self._a_study(), self._a_round()
        token = pick.choice([None, *self.operators])
        match pick.randrange(9):
            case 0 if self.tokens:
                user = pick.randrange(len(self.tokens))
                self.check_account(user)
            case 1 if self.void:
                self.ask("GET", "/v1/me", "unauthorized", pick.choice(self.void))
            case 2 if study is not None:
                self.catch_up(study)
            case 3:
                listed = self.ask("GET", "/v1/studies", 200, token).json()
                assert [each["id"] for each in listed] == list(self.studies)
            case 4 if study is not None:
                after = pick.choice([-1, 0, 3, 1 << 30])
                shown = self.ask("GET", f"/v1/studies/{study.id}/bulletin?after={after}", 200, token).json()
                assert [each["sequence"] for each in shown["entries"]] == list(range(after + 1, shown["length"]))
            case 5 if study is not None:
                shown = self.ask("GET", f"/v1/studies/{study.id}/result", 200, token).json()
                assert (shown["state"] in OVER) == study.over
            case 6 if round_ is not None:
                self.check_tally(round_)
            case 7 if study is not None and study.over:
                events = self.ask("GET", f"/v1/studies/{study.id}/events", 200, token).text
                assert "event: ended" in events
            case _:
                self.ask("GET", pick.choice(["/healthz", "/readyz", "/metrics", "/docs", "/openapi.json"]), 200, token)

    def check_account(self, user: int) -> None:
        """A user's account is the model's."""
        mine = {id_: round_ for id_, round_ in self.rounds.items() if user in round_.reports}
        account = self.ask("GET", "/v1/me", 200, self.tokens[user]).json()
        charges = {each["round"]: each["micro_epsilon"] for each in account["charges"]}
        assert charges == {id_: round_.spec.charge_of(user) for id_, round_ in mine.items()}
        assert account["spent_micro_epsilon"] == self.spent[user] == sum(charges.values()) <= self.cap
        assert account["remaining_micro_epsilon"] == self.cap - self.spent[user]

    def check_tally(self, round_: Round) -> None:
        """A round's tally is counted from the model's reports; of an open round nothing is shown."""
        shown = self.ask("GET", f"/v1/rounds/{round_.spec.id}/tally", 200).json()
        assert shown["received"] == len(round_.reports)
        if not shown["tallies"]:
            return
        assert not round_.is_open
        expected = [np.zeros(shape, int) for shape in zip(round_.spec.rows, round_.spec.limits, strict=True)]
        for user, outcome in round_.reports.items():
            question = round_.spec.question(user)
            expected[question.part][question.row, outcome] += 1
        assert shown["tallies"] == [each.tolist() for each in expected]

    # ------------------------------------------------------------------------------------------------- nonsense

    def wrong_door(self) -> None:
        """What asks for a role is asked without a token, with a forged one, with that of another role."""
        pick = self.source
        body: Json = {"json": {"title": "t", "strategy": "mean"}}
        doors: list[tuple[str, str, Sequence[str], Json]] = [
            ("POST", "/v1/studies", [*self.enrollers, *self.tokens[:3]], body),
            ("POST", f"/v1/studies/{NOTHING}/cancel", [*self.enrollers, *self.tokens[:3]], {}),
            ("POST", "/v1/enrolments", [*self.operators, *self.tokens[:3]], {}),
            ("POST", "/v1/users/0/token", self.enrollers, {}),
            ("GET", "/v1/users", [*self.enrollers, *self.tokens[:3]], {}),
            ("POST", "/v1/enrolment-tokens", [*self.enrollers, *self.tokens[:3]], {"json": {"users": 1, "seconds": 1}}),
            ("GET", "/v1/me", [*self.operators, *self.enrollers], {}),
            ("POST", f"/v1/rounds/{NOTHING}/close", [*self.enrollers, *self.tokens[:3]], {}),
            ("POST", f"/v1/rounds/{NOTHING}/batches", [*self.operators, *self.tokens[:3]], _columns([0], [0])),
        ]
        method, path, others, more = pick.choice(doors)
        if pick.random() < 0.5:
            self.ask(method, path, "unauthorized", pick.choice([None, *self.forged]), **more)
        else:
            self.ask(method, path, "forbidden", pick.choice(others), **more)

    def nonsense(self) -> None:
        """Paths, methods and versions that there are not."""
        pick, operator = self.source, self.operators[0]
        match pick.randrange(5):
            case 0:
                path = pick.choice(["/v1", "/v1/nothing", "/v1/studies/x", f"/v1/rounds/{NOTHING}", "/v1/rounds/%00"])
                self.ask("GET", path, "not-found")
            case 1:
                self.ask(pick.choice(["PUT", "DELETE", "PATCH"]), "/v1/studies", "method-not-allowed", operator)
            case 2:
                self.ask("GET", "/v1/studies", "version-mismatch", headers={"Askance-Protocol": "7"})
            case 3:
                self.ask("POST", f"/v1/studies/{NOTHING}/cancel", "not-found", operator)
            case _:
                text = pick.choice(["x", "-2", "1.5", "99999999999999999999"])
                study = self._a_study()
                if study is not None:
                    self.ask("GET", f"/v1/studies/{study.id}/bulletin?after={text}", "invalid-request")

    # ------------------------------------------------------------------------------------------------ in the end

    def check(self) -> None:
        """Accounts, tallies, states and metrics are those of the model."""
        for user in range(len(self.tokens)):
            self.check_account(user)
        for study in self.studies.values():
            self.catch_up(study)
        for round_ in self.rounds.values():
            self.check_tally(round_)
        samples = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(self.ask("GET", "/metrics", 200).text)
            for sample in family.samples
        }
        for verdict in Verdict:
            told = samples["askance_reports_total", verdict.name.lower()]
            if verdict is Verdict.ACCEPTED:
                assert told == self.verdicts[verdict]
            else:
                assert told <= self.verdicts[verdict], verdict
                assert told % STEP == 0, verdict
        assert samples["askance_users",] == len(self.tokens)
        ledger = self.api.app.state.aggregator.ledger
        assert ledger.verify() == []


def _key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def _sendable(token: str | None) -> str | None:
    return token if token is None or token.isascii() else token.encode("latin-1").decode("latin-1")


def _is_malformed(body: Json) -> bool:
    """Whether the form of a study is wrong, which is looked at before anything else."""
    title, parameters = body.get("title", ""), body.get("parameters", {})
    wrong_value = any(isinstance(value, float) for value in parameters.values())
    known = body.keys() <= {"title", "strategy", "parameters", "simulated"}
    whole = isinstance(body.get("simulated", False), bool) and "strategy" in body
    return not (known and whole and 0 < len(title) <= 200) or wrong_value


def _columns(users: Sequence[int], outcomes: Sequence[int], *, raw: bool = False) -> Json:
    if not raw:
        return {"json": {"users": list(users), "outcomes": list(outcomes)}}
    batch = ReportBatch(np.array(users, np.uint64), np.array(outcomes, np.uint32), simulated=True)
    return {"content": encode_raw(batch), "headers": {"Content-Type": "application/octet-stream"}}


def lived(number: int, directory: Path, requests: int) -> Life:
    """One life of so many requests; what fails is named by its number, from which all but nonces follows."""
    cap = random.Random(number).choice(["1", "5.000007", "30"])
    limits = {"study_limit": STUDY_LIMIT, "user_limit": USER_LIMIT, "server_key": _key(number).hex()}
    with Service(directory, raising=False, cap=cap, **limits) as api:
        life = Life(number, api, limit_from_text(cap))
        try:
            life.enrol()
            while life.sent < requests:
                life.go_on()
            life.check()
        except Exception as error:
            raise AssertionError(f"life {number}, after {life.sent} requests") from error
    return life


def live(requests: int, directory: Path) -> list[Life]:
    """As many lives as it takes to send so many requests."""
    lives = list[Life]()
    while sum(life.sent for life in lives) < requests:
        lives.append(lived(len(lives), directory / str(len(lives)), PER_LIFE))
    return lives


@pytest.mark.slow
def test_each_answer_and_all_sums_are_those_of_the_model(tmp_path: Path, figures: Figures) -> None:
    lives = live(REQUESTS, tmp_path)
    statuses = sum((each.statuses for each in lives), Counter[int]())
    said = sum((each.said for each in lives), Counter[str]())
    verdicts = sum((each.verdicts for each in lives), Counter[Verdict]())

    by_status = {f"answered_{status}": count for status, count in sorted(statuses.items())}
    figures("stateful requests", requests=statuses.total(), lives=len(lives), **by_status, server_errors=0)
    figures("reports in them", **{verdict.name.lower(): verdicts[verdict] for verdict in Verdict})
    # Each problem that a request can meet in such a life was met; most of them in a short run, whose nonces are drawn.
    met = {"invalid-request", "invalid-report", "unauthorized", "forbidden", "not-found", "method-not-allowed"}
    met |= {"conflict", "version-mismatch", "budget-exceeded", "round-not-open", "unsupported-media-type"}
    met |= {"body-too-large", "study-over", "too-many-studies"}
    assert len(met & said.keys()) >= (len(met) if TORTURE else 8)
    assert sum(verdicts[verdict] > 0 for verdict in Verdict) >= (len(Verdict) if TORTURE else 5)


# ------------------------------------------------------------------------------------------------------- controls


def _cap_one_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    cap_of = UserBudgets.cap_of
    monkeypatch.setattr(UserBudgets, "cap_of", lambda self, users: cap_of(self, users) - MICRO // 100)


def _void_tokens_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UserToken, "require_epoch", lambda self, current: None)


def _gateways_speak_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GatewayToken, "require", lambda self, study, *, simulated, users: None)


def _conflicts_are_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("askance_server.problems.OF_VERDICT", {**OF_VERDICT, Verdict.CONFLICT: "round-not-open"})


@pytest.mark.parametrize(
    "plant", [_cap_one_too_low, _void_tokens_live, _gateways_speak_for_all, _conflicts_are_repeats]
)
def test_control_one_fault_of_the_service_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    with pytest.raises(AssertionError, match="life"):
        live(20 * PER_LIFE, tmp_path)
