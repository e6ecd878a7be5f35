"""`askance converse`: simulate a randomizer's reports by statistical queries, and say how near that comes."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Final

import numpy as np
import typer

from askance_lab.commands.shared.channels import ChannelEpsilonOption, KindOption, KOption, RangeOption, build
from askance_lab.commands.shared.completion import words
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.options import MOST_REPORTS, MOST_RUNS, JsonOption, examples
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.experiments.converse import (
    LIE_SCHEDULES,
    QueryOracle,
    Simulation,
    TransparentRandomizer,
    distance,
    output,
    output_at_once,
)
from askance_protocol.arrays import Floats
from askance_protocol.errors import UsageError
from askance_protocol.text import counted, one_of, quoted
from askance_server.core.converse import SimulationAccuracy, candidates

SCHEMA_VERSION: Final = 1
_SPREAD: Final = 0.4
"""Parameter of the Dirichlet distribution that shares are drawn from: some inputs are common, some rare."""

app = typer.Typer()


@app.command(
    epilog=examples(
        "askance converse --kind kary --k 6 --epsilon 1",
        "askance converse --kind binary --epsilon 1 --shares 0.9,0.1 --lie up-down",
        "askance converse --kind geometric --epsilon 0.5 --t 4 --beta 0.2 --reports 2000 --json",
    )
)
def converse(
    kind: KindOption,
    epsilon: ChannelEpsilonOption,
    k: KOption = None,
    range_: RangeOption = None,
    t: Annotated[
        int, typer.Option("--t", min=1, max=MOST_RUNS, help="Number of reports that the local algorithm asks for.")
    ] = 1,
    beta: Annotated[
        float, typer.Option("--beta", help="Statistical distance that all of its reports together may be off.")
    ] = 0.1,
    shares: Annotated[
        str | None,
        typer.Option(
            "--shares", metavar="P,…", help="Share of the users that has each input.  [default: drawn by --seed]"
        ),
    ] = None,
    lie: Annotated[
        str,
        typer.Option(
            "--lie",
            help=f"What the oracle says within its tolerance: {', '.join(LIE_SCHEDULES)}.",
            autocompletion=words(*LIE_SCHEDULES),
        ),
    ] = "up-down",
    reports: Annotated[
        int,
        typer.Option(
            "--reports", min=0, max=MOST_REPORTS, help="Number of reports to draw as well; 0: only the exact figures."
        ),
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the shares and of the reports drawn.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Simulate what a randomizer reports about a random user, without users: by statistical queries.

    KLNRS11, Claim 5.9: by asking again after each refusal, and all at once (nonadaptively). The distance and the
    expected number of tries are exact, whatever the oracle says within its tolerance. It ends with exit code 6
    if one of them is not within the claim's bound.
    """
    if lie not in LIE_SCHEDULES:
        raise UsageError(f"{quoted(lie)} is no schedule", where="--lie", remedy=one_of(lie, LIE_SCHEDULES))
    randomizer = TransparentRandomizer.of(build(kind, epsilon, k, range_))
    users, accuracy = _users(shares, len(randomizer.probabilities), seed), SimulationAccuracy(t, beta)
    simulated, tries = output(randomizer, QueryOracle(users, LIE_SCHEDULES[lie]), accuracy)
    nonadaptive = output_at_once(randomizer, QueryOracle(users, LIE_SCHEDULES[lie]), accuracy)
    answer: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "epsilon": randomizer.epsilon,
        "inputs": len(users),
        "outcomes": len(simulated),
        "t": t,
        "beta": beta,
        "lie": lie,
        "tolerance": accuracy.tau(randomizer.epsilon),
        "distance": distance(simulated, randomizer.on(users)),
        "distance_at_once": distance(nonadaptive, randomizer.on(users)),
        "distance_allowed": beta / t,
        "tries": tries,
        "tries_allowed": 2 * math.exp(randomizer.epsilon),
        "candidates_at_once": candidates(randomizer.epsilon, accuracy),
        "sampled": _sampled(randomizer, users, accuracy, lie, reports, seed) if reports else None,
    }
    typer.echo(json.dumps(answer, ensure_ascii=False) if as_json else _text(answer))
    far = max(answer["distance"], answer["distance_at_once"])
    kept = far <= answer["distance_allowed"] and answer["tries"] <= answer["tries_allowed"]
    raise typer.Exit(Exit.OK if kept else Exit.CHECK_FAILED)


def _users(shares: str | None, inputs: int, seed: int) -> Floats:
    """How likely each input is."""
    if shares is None:
        drawn = np.random.default_rng([seed, 1]).dirichlet(np.full(inputs, _SPREAD))
        return drawn / drawn.sum()
    try:
        given = np.array([float(part) for part in shares.split(",")])
    except ValueError:
        given = np.zeros(0)
    if given.shape != (inputs,) or not np.isfinite(given).all() or given.min() < 0 or given.sum() <= 0:
        raise UsageError(
            f"{quoted(shares)} is no share for each input", where="--shares", remedy=f"give {inputs} numbers from 0 on"
        )
    return given / given.sum()


def _sampled(
    randomizer: TransparentRandomizer, users: Floats, accuracy: SimulationAccuracy, lie: str, reports: int, seed: int
) -> dict[str, float]:
    oracle = QueryOracle(users, LIE_SCHEDULES[lie])
    simulation = Simulation(oracle, accuracy, np.random.default_rng([seed, 2]))
    drawn = list[int]()
    with ProgressBar("reports", reports, quiet=True) as bar:
        for number in range(reports):
            bar.at(number)
            drawn.append(simulation.report(randomizer))
    seen = np.bincount(drawn, minlength=randomizer.probabilities.shape[1]) / reports
    return {
        "reports": reports,
        "queries": oracle.queries,
        "distance": distance(seen, randomizer.on(users)),
        "tries": float(np.mean(simulation.tries)),
    }


def _text(answer: dict[str, Any]) -> str:
    size = f"{counted(answer['inputs'], 'input')}, {counted(answer['outcomes'], 'outcome')}"
    lines = [
        f"{answer['kind']} channel, ε = {answer['epsilon']:g}: {size}",
        f"queries of tolerance {answer['tolerance']:.3g}, lies: {answer['lie']}",
        f"distance from the channel's own reports: {answer['distance']:.4g}, allowed {answer['distance_allowed']:.4g}",
        f"tries for a report, on average: {answer['tries']:.4g}, allowed {answer['tries_allowed']:.4g}",
        f"all at once: {counted(answer['candidates_at_once'], 'candidate')} for a report, "
        f"distance {answer['distance_at_once']:.4g}",
    ]
    if sampled := answer["sampled"]:
        lines.append(
            f"sampled: {counted(sampled['reports'], 'report')} by {counted(sampled['queries'], 'query', 'queries')}, "
            f"distance {sampled['distance']:.4g}, tries {sampled['tries']:.4g}"
        )
    return "\n".join(lines)
