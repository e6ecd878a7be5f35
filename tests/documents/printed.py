"""What documents say, page by page: figures from files that a command has kept, and figures that are worked out here.

A page that has a figure of a kept file names the command that prints it: each printer has it at its head. What is
worked out here is arithmetic, and exact: no figure of it is measured.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

from typer.testing import CliRunner

from askance_lab.cli import app
from tests.harness.tree import ROOT

DOCS: Final = ROOT / "docs"
Printer = Callable[[], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Source:
    """What prints texts of a page, and the words by which the page names it; no words for arithmetic."""

    texts: Callable[[], Sequence[str]]
    named: str = ""


PRINTED: Final = defaultdict[str, list[Source]](list)
"""By page."""


def kept(page: str, named: str) -> Callable[[Printer], Printer]:
    """Say that a page's texts are read from a file that the named command has written."""

    def register(texts: Printer) -> Printer:
        PRINTED[page].append(Source(cache(lambda: tuple(texts())), named))
        return texts

    return register


def worked_out(page: str) -> Callable[[Printer], Printer]:
    """Say that a page's texts are arithmetic."""
    return kept(page, "")


@cache
def script(name: str) -> Any:
    """A program of benchmarks/, which imports what lies beside it."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@cache
def read(path: str) -> Any:
    """A file that a command has kept below docs/."""
    return json.loads((DOCS / path).read_text("utf-8"))


def lines(rows: list[str]) -> Iterator[str]:
    """The rows of a table that have numbers."""
    yield from (row for row in rows if any(character.isdecimal() for character in row))


# ---------------------------------------------------------------------------------------------------- from kept files


@kept("docs/performance.md", "make bench")
def performance() -> Iterator[str]:
    bench = script("bench")
    for section in bench.sections(bench.read(DOCS / "performance" / "measured.json")).values():
        yield from lines([line for part in section for line in part.splitlines()])


@kept("docs/monitoring.md", "python benchmarks/capacity.py")
def capacity() -> Iterator[str]:
    yield from lines(script("capacity").markdown(read("performance/measured.json")["runs"]).splitlines())


@kept("docs/intervals.md", "python benchmarks/coverage.py")
def intervals() -> Iterator[str]:
    rows = read("intervals/measured.json")["rows"]
    yield script("coverage").summary(rows)
    yield from lines([line for part in script("coverage").markdown(rows) for line in part.splitlines()])


@kept("docs/landscape.md", "askance landscape --out DIR")
def landscape() -> Iterator[str]:
    said = CliRunner().invoke(app, ["landscape", "--out", str(DOCS / "landscape"), "--show"], catch_exceptions=False)
    yield from lines(said.stdout.splitlines())
    found = {(each["cell"], each["d"]): each["users"] for each in read("landscape/found.json")["found"].values()}
    curator, elimination = (
        found[f"PARITY · {model}", 64] / 64 for model in ("curator · A*, insistent", "not private · elimination")
    )
    yield f"from some {curator:.1g} users a bit".replace("2e+01", "20") + f" and elimination from {elimination:.0f}"


@kept("docs/learners.md", "python benchmarks/learners.py 40")
def learners() -> Iterator[str]:
    printed = read("learners/learners.json")
    yield from lines(script("learners").table(printed["learners"]))
    yield from lines(script("learners").endings(printed["hostile"]))
    runs = {row["asked"]["seeds"] for row in printed["learners"] if row["asked"]}
    yield from (f"kept their promise in {each} of {each} studies" for each in runs)
    yield f"with {script('learners').HOSTILE_USERS:,} enrolled"


def table_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def rate(each: dict[str, Any]) -> tuple[str, str]:
    """How often it is right, and the interval."""
    low, high = each["interval"]
    return f"{each['rate']:.3f}", f"{low:.3f}–{high:.3f}"


@kept("docs/masked-parity.md", "python benchmarks/masked_parity.py")
def masked_parity() -> Iterator[str]:
    printed = read("masked-parity/measured.json")
    for name in ("goals", "again", "curve", "small", "compared", "two_rounds"):
        for each in printed[name]:
            learner = each["strategy"].removeprefix("masked-parity-").replace("-", " ")
            learner += "" if each["tallied"] else ", drawn"
            sizes = str(each["d"]), str(each["most_rounds"]), f"{each['users']:,}", f"{each['seeds']:,}"
            asked = f"{each['mean_asked']:,}", f"{each['mean_rounds']:.1f}"
            yield table_row(learner, *sizes, *rate(each), *asked)
    pooled, sure = printed["goals"]
    goals = {each.strategy: each for each in script("masked_parity").GOALS}
    most = goals[sure["strategy"]].asked
    yield f"({pooled['users']:,} in all; {most:,} asked on average), on {pooled['seeds']:,} seeds"
    [again] = printed["again"]
    assert (sure["rate"] + again["rate"]) / 2 < script("masked_parity").RATE
    assert (sure["mean_asked"] + again["mean_asked"]) / 2 > most
    yield f"Both together miss 95 % and {most:,} by a little"


@kept("docs/masked-parity.md", "python benchmarks/masked_parity_tried.py")
def masked_parity_tried() -> Iterator[str]:
    rows = read("masked-parity/tried.json")["tried"]
    for each in rows:
        yield table_row(each["variant"], f"{each['users']:,}", *rate(each), f"{each['mean_rounds']:.1f}")
    yield from (f"{each} seeds each" for each in {row["seeds"] for row in rows})


@kept("docs/peers.md", "python benchmarks/peers.py --json")
def peers() -> Iterator[str]:
    module, printed = script("peers"), read("peers/measured.json")
    yield from lines(module.markdown(printed["rows"]))
    yield from lines(module.goals(module.figures_of(printed["rows"])))
    [mine] = [row for row in printed["rows"] if row["library"] == "askance"]
    yield f'`{{"outcome":1}}`: {mine["bit"]["bytes"]:.0f} bytes'
    yield f"for a frequency oracle over {printed['cells']} cells, at ε = {printed['epsilon']}"
    yield f"of {printed['users']:,} users for cells and of {printed['bit_users']:,} for the bit"
    yield f"Of {printed['cells']} cells, one at a time"
    packed = {each["oracle"]: each["bits_packed"] for row in printed["rows"] for each in row["cells"]}
    few, fewer = (math.ceil(packed[name] / 8) for name in ("OUE", "subset selection"))
    ours = packed[mine["cells"][0]["oracle"]]
    yield f"packed, OUE has {few} bytes, subset selection {fewer}, and ours {ours:.0f} bits"


@kept("docs/plan.md", "python benchmarks/enrol.py --keep FILE")
def plan() -> Iterator[str]:
    printed = read("plan/enrol.json")
    yield from lines([line for part in script("enrol").table(printed) for line in part.splitlines()])


@kept("docs/points.md", "python benchmarks/points.py")
def points() -> Iterator[str]:
    module = script("points")
    yield from lines(module.markdown(read("points/measured.json")["table"]))
    yield f"on the same {module.EXAMPLES:,} examples"
    yield f"has {module.FLOOR} added on both sides"


@kept("docs/security.md", "make torture")
def security() -> Iterator[str]:
    from tests.harness.figures import said

    for item, counts in read("security/torture.json")["items"].items():
        yield f"| {item} | {said(counts)} |"


@kept("docs/server.md", "python benchmarks/replicas.py")
def replicas() -> Iterator[str]:
    printed = read("server/replicas.json")
    yield from lines(script("replicas").markdown(printed))
    yield script("replicas").sentence(printed)


@kept("docs/server.md", "python benchmarks/streams.py")
def streams() -> Iterator[str]:
    printed = read("server/streams.json")
    yield from lines(script("streams").markdown(printed))
    yield script("streams").sentences(printed)


@kept("docs/telemetry.md", "python benchmarks/survey.py")
def survey() -> Iterator[str]:
    yield from lines(script("survey").markdown(read("telemetry/measured.json")["table"]))


@kept("docs/telemetry.md", "python benchmarks/rounds.py")
def rounds() -> Iterator[str]:
    rows = read("telemetry/rounds.json")["rows"]
    for inside, once in zip(rows[::2], rows[1::2], strict=True):
        counted = f"{inside['users']:,} | {inside['mean_rounds']:.1f} | {once['users']:,}"
        yield f"| {inside['question']} | {counted} | {once['users'] / inside['users']:.2f} |"


@kept("docs/users.md", "python benchmarks/users.py")
def users() -> Iterator[str]:
    yield from lines(script("users").markdown(read("users/table.json")))


@kept("docs/compose.md", "make test-compose")
def compose() -> Iterator[str]:
    from tests.e2e.compose.panels import sentences

    yield from sentences(read("compose/tried.json"))


@kept("docs/theory.md", "python benchmarks/curator_users.py")
def yardsticks() -> Iterator[str]:
    yield from lines(script("curator_users").markdown())


# ---------------------------------------------------------------------------------------------------------- arithmetic


def turned(epsilon: float) -> float:
    """How often binary response gives the other answer."""
    return 1 / (1 + math.exp(epsilon))


@worked_out("README.md")
def readme() -> Iterator[str]:
    yield f"e¹ = {math.e:.2f} times"
    from askance_lab.commands.demo import IN_PROCESS

    d, users = IN_PROCESS
    yield f"compares these two on {concepts_of_the_demo() - 1} secrets of {d} bits, with {users:,} users each"


def concepts_of_the_demo() -> int:
    """How many there are; the last of them is live."""
    from askance_lab.commands import demo

    return int(inspect.signature(demo.demo).parameters["concepts"].default)


@worked_out("docs/client.md")
def demo() -> Iterator[str]:
    """Of the concepts of `askance demo` the last one is learned live."""
    from askance_lab.commands import demo as command
    from askance_lab.commands.demo import IN_PROCESS
    from askance_lab.experiments.second_round import STUDIES

    concepts, (d, users), given = concepts_of_the_demo(), IN_PROCESS, inspect.signature(command.demo).parameters
    yield f"there are {concepts}, each with users of its own. The demo learns {concepts - 1} of them"
    yield f"d = {d} and {users:,} users each"
    yield f"The last one is live: d = {given['d'].default} and {given['users'].default:,} users"
    yield f"runs {STUDIES} studies like it"


@worked_out("docs/index.md")
def index() -> Iterator[str]:
    yield f"A coin turns each with {turned(1):.0%}".replace("%", " percent")
    yield f"odds of at most {math.e:.2f} to 1 for each ε of 1"


@worked_out("docs/teach.md")
def teach() -> Iterator[str]:
    yield f"no report is more than e = {math.e:.2f} times as likely"
    yield f"in {100 * (1 - turned(1)):.0f} of 100 cases, and its opposite in the others"


@worked_out("docs/room.md")
def room() -> Iterator[str]:
    yield f"says yes with {100 * (1 - turned(2)):.0f} %, and if you say no, with {100 * turned(2):.0f} %"


@worked_out("docs/tutorial-1-coin.md")
def coin() -> Iterator[str]:
    true, other = 1 - turned(1), turned(1)
    yield f"With {100 * true:.0f} percent the same bit comes out, with {100 * other:.0f} percent the other"
    yield f"it turns the answer in {100 * other:.0f} of 100 cases"
    yield f"comes out as 1 in {100 * true:.0f} of 100 cases, and a no (input 0) in {100 * other:.0f} of 100"
    yield f"So a 1 is {true:.3f} / {other:.3f} = {true / other:.2f} times as likely"
    yield f"e is {math.floor(1000 * math.e) / 1000}…"
    yield f"At ε = 3 it is the truth in {100 * (1 - turned(3)):.0f} of 100 cases"


@worked_out("docs/oracles.md")
def noisy_labels() -> Iterator[str]:
    yield f"1/(1 − 2η)², {1 / (1 - 2 * 0.1) ** 2:.2f} times as many here"


@worked_out("docs/monitoring.md")
def million() -> Iterator[str]:
    yield f"A population of a million whose clients report within an hour sends {10**6 / 3600:.0f} reports a second"


@worked_out("docs/masked-parity.md")
def three_symbols() -> Iterator[str]:
    """Information of a report about the sign of a cell that half of the users are in, at ε = 1."""
    e = math.e
    each, more = 1 / (e + 2), (e - 1) / (e + 2)
    three = 2 * (more / 2) ** 2 / (each + more / 4)
    one = ((e - 1) / (e + 1)) ** 2
    gain, few, fewer = 100 * (three / one - 1), f"{three:.4f}".lstrip("0"), f"{one:.4f}".lstrip("0")
    yield f"has {gain:.1f} % more information, {few} against 1/C² = {fewer}"


@worked_out("docs/masked-parity.md")
def first_rounds() -> Iterator[str]:
    """The first rounds of the plans, at d = 64."""
    from askance_lab.experiments.planned_users import plan_study

    def first(form: str, **more: int) -> str:
        reports = plan_study(f"masked-parity-{form}", {"d": 64, "epsilon": "1", **more}).rounds[0].planned
        return f"{reports / 10**6:.2f}·10⁶"

    plans = first("pooled"), first("two-rounds"), first("pooled", rounds=100)
    yield "{} reports against {} at d = 64, {} with a hundred rounds".format(*plans)


@worked_out("docs/telemetry.md")
def buckets() -> Iterator[str]:
    """One bit beside optimized unary encoding (Wang et al. 2017): C² against 4e^ε/(e^ε − 1)²."""
    one, two = ((math.exp(epsilon) + 1) ** 2 / (4 * math.exp(epsilon)) for epsilon in (1, 2))
    yield f"had {one:.2f} times as much at ε = 1 and {two:.1f} times at ε = 2"


@worked_out("docs/telemetry.md")
def together() -> Iterator[str]:
    """Yes/no questions in one report by k-ary response, beside one question of a bit with its share of the users."""

    def variance(shares: float, share: float, epsilon: float, questions: int) -> float:
        cells, half = 2**questions, 2 ** (questions - 1)
        q = 1 / (math.exp(epsilon) + cells - 1)
        more = (math.exp(epsilon) - 1) * q
        named = half * q + more * share
        return shares * named * (1 - named) / more**2

    def ratio(share: float, epsilon: float, questions: int) -> str:
        return f"{variance(1, share, epsilon, questions) / variance(questions, share, epsilon, 1):.2f}"

    nobody = float(ratio(0, 4, 3))
    rare, even = ratio(0.02, 4, 3), ratio(0.5, 4, 3)
    yield f"a share of 0 has {nobody:.1f} times its variance, one of 0.02 has {rare} of it, and one of a half {even}"
    yield f"each has {ratio(0.5, 4, 3)} of the variance; at ε = 2 two, and {ratio(0.5, 2, 2)}"


@worked_out("docs/telemetry.md")
def count_of_users() -> Iterator[str]:
    share, low, high = (round(20_000 * each) for each in (0.11, 0.08, 0.14))
    yield f"of {20_000:,} users, 0.11 (0.08 to 0.14) are {share:,} ({low:,} to {high:,})"


@worked_out("docs/telemetry.md")
def cells_of_a_table() -> Iterator[str]:
    """The most cells of which sets of cells are asked, at ε = 1."""
    from tests.server.core.test_cell_channels import chosen

    most = max(cells for cells in range(2, 100) if chosen(cells, 1_000_000).kind == "table")
    yield f"Questions with more than {most} cells"


@worked_out("docs/strategies.md")
def signed_cells() -> Iterator[str]:
    """How many fewer users buckets take than a bit, for signed cells; and half of the users in none of them."""
    from tests.server.core import test_hashed_cells as hashed

    query, example = hashed.masked(16)
    even, half = list[str](), list[str]()
    for epsilon in (2, 3):
        bit = ((math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)) ** 2
        taken = hashed.channel_for(query, example, epsilon * 1_000_000)
        [(spec, score)] = [each for each in hashed.hash_laws(query, example, epsilon * 1_000_000) if each[0] == taken]
        even.append(f"{bit / score.variance(0):.1f}")
        half.append(f"{bit / hashed.variance_with_half_in_no_cell(score, epsilon, spec.bits):.1f}")
    yield f"take {' and '.join(even)} times fewer users than a bit, and {' and '.join(half)} times fewer if half"
    best = " and ".join(f"{hashed.optimum(epsilon):.1f}" for epsilon in (2, 3))
    yield f"({best} is all that any channel can do there)"


@worked_out("docs/masked-parity.md")
def candidates() -> Iterator[str]:
    from askance_server.strategies.masked_parity_pooled import MOST_QUERIES

    yield f"asks more than {MOST_QUERIES:,} queries: about {MOST_QUERIES / 100:.0g} candidates".replace("4e+01", "40")


@worked_out("docs/sanitizers.md")
def cells_beside_each_other() -> Iterator[str]:
    """(33/α)·(αm/32 − 3/2) ≥ m from αm = 32·33·3/2 on."""
    yield f"no more than 33/α, if αm ≥ {32 * 33 * 3 // 2}"


@worked_out("docs/protocol.md")
def longest_integer() -> Iterator[str]:
    """What Python reads, which everybody who checks a hypothesis has to agree on."""
    yield f"an integer of at most {sys.int_info.default_max_str_digits} digits"


@worked_out("docs/protocol.md")
def slack() -> Iterator[str]:
    from askance_protocol.channels.additive import SLACK_NANO

    yield f"ε' = ε − {SLACK_NANO}·10⁻⁹"


@worked_out("docs/protocol.md")
def widest_round() -> Iterator[str]:
    from askance_protocol.channels.ratio import MAX_MICRO_EPSILON

    yield f"a `micro_epsilon` above {MAX_MICRO_EPSILON // 10**6}·10⁶"


@worked_out("docs/intervals.md")
def enumerated() -> Iterator[str]:
    """What a test asserts of every population: 1 − confidence of all, and 0.6 of it on each side."""
    from tests.server.core.test_mixtures import mixed

    populations = round(len(mixed(3)), -2)
    yield f"every tally and some {populations} populations"
    yield f"no mean is missed with more than {100 * 0.05:.0f} %, and on no side with more than {100 * 0.6 * 0.05:.0f} %"
    yield f"each side alone is wrong with {100 * 0.05 / 2} % at most"
    yield f"only one side can be missed: {100 * (1 - 0.05 / 2)} %"


@worked_out("docs/scaling.md")
def largest_task() -> Iterator[str]:
    from askance_client.simulation.blocks import BLOCK
    from askance_lab import run_study

    yield f"up to {BLOCK * run_study._BLOCKS / 10**6} million users"


@worked_out("docs/plan.md")
def bound_of_the_plan() -> Iterator[str]:
    yield f"(here {read('plan/enrol.json')['most'] / 10**7:.0f}·10⁷, and 10⁸ for conjunctions)"


@worked_out("docs/security.md")
def rounds_of_a_study() -> Iterator[str]:
    from askance_protocol.rounds import answerable

    yield f"no more than {1_000_000 // answerable.LEAST_CHARGE} rounds of a study"


@worked_out("docs/theory.md")
def at_once() -> Iterator[str]:
    from askance_lab.theory.theorem import theorem

    enough = theorem("masked-parity-at-once").compute({"d": 8})["sharp"].fields["users"]
    [took] = [
        each["users"]
        for each in read("masked-parity/measured.json")["small"]
        if each["strategy"].endswith("noninteractive")
    ]
    yield f"some {float(enough) / took:.1f} times what was measured"


def four_outputs() -> int:
    """Users of whom the mask bit is read 19 times in 20, at d = 8 and ε = 1, where r is known."""
    return 2**7 * next(users for users in range(1, 1000) if right_given_r(users) >= 0.95)


@worked_out("docs/theory.md")
def outputs_of_theory() -> Iterator[str]:
    yield f"reach .95 with {four_outputs():,} users, by exact counts"


@worked_out("docs/separation.md")
def outputs_of_separation() -> Iterator[str]:
    from askance_lab.theory.theorem import theorem

    limit = theorem("at-once-limit").compute({"d": 8})["sharp"].fields["users"]
    yield f"right 19 times in 20 with {100 * (1 - four_outputs() / float(limit)):.1f} % fewer users, where r is given"


def right_given_r(users_of_a_pair: int) -> float:
    """How often: of the one pair that has r, the outputs of one class are likelier with one sign or with the other."""
    from askance_lab.experiments.separation.pairs import laws

    more, less = (float(each) for each in laws(8, 1.0)[0, 0, 0, :2])
    both = more + less
    return sum(
        math.comb(users_of_a_pair, seen)
        * both**seen
        * (1 - both) ** (users_of_a_pair - seen)
        * majority(seen, max(more, less) / both)
        for seen in range(users_of_a_pair + 1)
    )


def majority(votes: int, share: float) -> float:
    """How often most of these votes are right; half of the ties are."""
    ways = [math.comb(votes, right) * share**right * (1 - share) ** (votes - right) for right in range(votes + 1)]
    return sum(way * (1.0 if 2 * right > votes else 0.5) for right, way in enumerate(ways) if 2 * right >= votes)
