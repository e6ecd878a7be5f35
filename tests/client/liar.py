"""A server in memory that keeps the contract, but for the lies that are planted in it. It remembers all it was sent."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

import httpx

from askance_client import Patience, Server
from askance_protocol import canonical
from askance_protocol.rounds import Cohort, Part, RoundPublished, RoundSpec, StudySpec
from askance_protocol.rounds.bulletin import GENESIS
from tests.client.ways import server_at
from tests.protocol.studies import FAR

Json = dict[str, Any]

HOST: Final = "askance.test"
URL: Final = f"http://{HOST}"
ENROLMENT: Final = "enrolment.token"
USER: Final = 3
TOKEN: Final = "user.token.3"
RICH: Final = 100_000_000
"""A cap that the server says she has, whatever she says."""
HASTY: Final = Patience(attempts=3, first=0, longest=0)

Answer = httpx.Response | bytes | Json
Change = Callable[[Json], Answer | None]
"""A document changed in place, or what is said instead of it."""


@dataclass
class Liar:
    """One study, one user. `entries` and `says` are there to be tampered with."""

    study: Json
    entries: list[Json] = field(default_factory=list[Json])
    says: dict[str, Change] = field(default_factory=dict[str, Change])
    """What is said instead of a document, by its name: bulletin, me, receipt, enrolment."""
    charges: dict[str, int] = field(default_factory=dict[str, int])
    heard: dict[str, bytes] = field(default_factory=dict[str, bytes])
    requests: list[httpx.Request] = field(default_factory=list[httpx.Request])

    @classmethod
    def of(cls, study: StudySpec) -> Liar:
        """With the study on its bulletin."""
        liar = cls(study.to_json())
        liar.publish({"kind": "study", "study": study.to_json()})
        return liar

    # ---------------------------------------------------------------------------------------------- what it was sent

    @property
    def bodies(self) -> list[bytes]:
        """All report bodies, wherever they were sent."""
        return [r.content for r in self.requests if r.method == "POST" and "enrolments" not in r.url.path]

    @property
    def tokens(self) -> set[tuple[str, str]]:
        """Which host was shown which token."""
        shown = ((r.url.host, r.headers.get("authorization", "")) for r in self.requests)
        return {(host, token.removeprefix("Bearer ")) for host, token in shown if token}

    @property
    def hosts(self) -> set[str]:
        """Who was asked anything."""
        return {request.url.host for request in self.requests}

    # ------------------------------------------------------------------------------------------------- what it does

    @property
    def id(self) -> str:
        """The study's digest."""
        return canonical.digest(self.study)

    @property
    def round_id(self) -> str:
        """The id of the first round."""
        return next(canonical.digest(e["notice"]["round"]) for e in self.entries if e["notice"]["kind"] == "round")

    @property
    def head(self) -> str:
        """What the next entry carries."""
        return canonical.digest(self.entries[-1]) if self.entries else GENESIS

    def publish(self, notice: Json) -> None:
        """One more entry in its right place, whatever it says."""
        entry = {"form": "askance.entry", "version": 1, "sequence": len(self.entries), "previous": self.head}
        self.entries.append({**entry, "notice": notice})

    def round(self, *parts: Part, **changes: Any) -> RoundSpec:
        """The next round."""
        published = sum(entry["notice"]["kind"] == "round" for entry in self.entries)
        members: Json = {
            "study": self.id,
            "number": published + 1,
            "parts": parts,
            "cohort": Cohort(users=1000),
            "target": 10,
            "deadline": FAR,
        }
        return RoundSpec(**(members | changes))

    def ask(self, *parts: Part, **changes: Any) -> str:
        """Publish the next round; its id."""
        spec = self.round(*parts, **changes)
        self.publish(RoundPublished(round=spec).to_json())
        return spec.digest()

    def rewrite(self, position: int, change: Change) -> None:
        """Another entry in this place, and all that follow chained to it: a second history."""
        notices = [entry["notice"] for entry in self.entries]
        change(notices[position])
        self.entries.clear()
        for notice in notices:
            self.publish(notice)

    # ----------------------------------------------------------------------------------------------- what it answers

    def server(self, url: str = URL) -> Server:
        """The way to it. Whatever host is asked, it is this one that answers."""
        return server_at(url, self.handle, HASTY)

    def transport(self) -> httpx.MockTransport:
        """What brings it any request."""
        return httpx.MockTransport(self.handle)

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Any request."""
        self.requests.append(request)
        match request.method, request.url.path.strip("/").split("/"):
            case "GET", ["v1", "studies", _, "bulletin"]:
                return self._say("bulletin", self._bulletin(request))
            case "GET", ["v1", "me"]:
                return self._say("me", self._me())
            case "POST", ["v1", "enrolments"]:
                return self._say("enrolment", self._enrolment())
            case "POST", ["v1", "rounds", round_, "reports"]:
                return self._take(round_, request.content)
            case _:
                return problem(404, "not-found")

    def _bulletin(self, request: httpx.Request) -> Json:
        after = int(parse_qs(request.url.query.decode())["after"][0])
        # A copy: what is said is changed, and not what is known.
        entries = copy.deepcopy(self.entries[after + 1 :])
        length = self.entries[-1]["sequence"] + 1 if self.entries else 0
        return {"head": self.head, "length": length, "entries": entries}

    def _me(self) -> Json:
        charges = [{"round": round_, "micro_epsilon": charge} for round_, charge in self.charges.items()]
        spent = sum(self.charges.values())
        return {
            "user": USER,
            "cap_micro_epsilon": RICH,
            "spent_micro_epsilon": spent,
            "remaining_micro_epsilon": RICH - spent,
            "charges": charges,
        }

    def _enrolment(self) -> Json:
        return {"user": USER, "users": 1, "cap_micro_epsilon": RICH, "token": TOKEN, "tokens": []}

    def _take(self, round_: str, body: bytes) -> httpx.Response:
        specs = [entry["notice"]["round"] for entry in self.entries if entry["notice"]["kind"] == "round"]
        [charge] = [spec["parts"][0]["charge"] for spec in specs if canonical.digest(spec) == round_]
        if self.heard.setdefault(round_, body) != body:
            return problem(409, "conflict")
        self.charges[round_] = charge
        return self._say("receipt", {"user": USER, "round": round_, "charged": charge})

    def _say(self, name: str, document: Json) -> httpx.Response:
        change = self.says.get(name)
        said = None if change is None else change(document)
        if isinstance(said, httpx.Response):
            return said
        body = said if isinstance(said, bytes) else canonical.dumps(document if said is None else said)
        return httpx.Response(200, content=body, headers={"Content-Type": "application/json"})


def instead_of_an_answer(_: Json) -> httpx.Response:
    """The connection is gone, and the server has heard all."""
    raise httpx.ReadError("reset")


def problem(status: int, name: str, **headers: str) -> httpx.Response:
    """A problem document."""
    body = {"type": f"urn:askance:problem:{name}", "title": "No", "status": status, "next": "Nothing."}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, content=canonical.dumps(body), headers=named)
