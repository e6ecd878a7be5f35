"""`askance audit`: a lower bound on a randomizer's ε from its reports alone, against what it claims."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
import typer

from askance_lab.commands.shared.channels import KINDS, KOption, RangeOption, build
from askance_lab.commands.shared.completion import words
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.options import MOST_REPORTS, JsonOption, examples, read_limit
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.experiments.audit import FAILURE, Audit, AuditVerdict, Sampler, audit_channel, sampler_of
from askance_lab.experiments.float_laplace import witness_samplers
from askance_protocol.arrays import Integers
from askance_protocol.budget import MICRO, limit_from_text, to_text
from askance_protocol.errors import UsageError
from askance_protocol.randomness import OsRandom, SimulatedRandom
from askance_protocol.text import counted, quoted

SCHEMA_VERSION: Final = 1
_BOUND: Final = 1.0
"""The float Laplace randomizes a value in [−1, 1], so its scale is 2/ε: KLNRS11, §5.1.1."""
_EVENT: Final = ("possible under both inputs", "impossible under the neighbour")

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class Audited:
    """A randomizer under two inputs, and the ε that it claims."""

    name: str
    samplers: tuple[Sampler, Sampler]
    inputs: tuple[float, float]
    outcomes: int
    claimed: int
    """Micro-ε."""


@app.command(
    epilog=examples(
        "askance audit --kind binary --epsilon 1",
        "askance audit --kind kary --k 8 --epsilon 2 --claim 1.5 --inputs 0,3",
        "askance audit --float --epsilon 1",
    )
)
def audit(
    epsilon: Annotated[str, typer.Option("--epsilon", help="Privacy parameter ε that the randomizer is built with.")],
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            help=f"Which of our randomizers: {', '.join(KINDS)}; or give --float.",
            autocompletion=words(*KINDS),
        ),
    ] = None,
    k: KOption = None,
    range_: RangeOption = None,
    floating: Annotated[
        bool,
        typer.Option("--float", help="Audit the papers' Laplace noise in floating point, which is not private."),
    ] = False,
    claim: Annotated[
        str | None, typer.Option("--claim", help="ε that is claimed.  [default: what the randomizer itself says]")
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option("--inputs", metavar="U,V", help="Two inputs to tell apart.  [default: the first and the last]"),
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", min=2, max=MOST_REPORTS, help="Number of reports to draw under each input.")
    ] = (200_000),
    failure: Annotated[
        float, typer.Option("--failure", help="Probability with which the bound may be wrong.")
    ] = FAILURE,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Seed of the draws.  [default: the operating system's randomness]"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw reports of a randomizer under two inputs, and bound its ε from below with confidence.

    It ends with exit code 6 if the bound is above the claim. That no violation is seen proves nothing: what certifies
    a channel of ours is its integer table, see askance channel describe.
    """
    _check(kind, k, range_, inputs, floating=floating)
    if kind is None:
        audited = _float_laplace(limit_from_text(epsilon), seed)
    else:
        audited = _channel(kind, epsilon, k, range_, inputs, seed)
    claimed = audited.claimed if claim is None else read_limit(claim, "--claim")
    with ProgressBar("reports", 2 * samples, quiet=True) as bar:
        u, v = (_counted(each, bar) for each in audited.samplers)
        found, verdict = audit_channel(u, v, samples, claimed, outcomes=audited.outcomes, failure=failure)
    answer = _answer(audited, epsilon, claimed, found, verdict)
    typer.echo(json.dumps(answer, ensure_ascii=False) if as_json else _text(answer))
    raise typer.Exit(Exit.CHECK_FAILED if verdict is AuditVerdict.VIOLATED else Exit.OK)


def _counted(sampler: Sampler, bar: ProgressBar) -> Sampler:
    """The sampler, whose reports are shown as they are drawn."""

    def sample(reports: int) -> Integers:
        bar.at(bar.done)
        drawn = sampler(reports)
        bar.at(bar.done + reports)
        return drawn

    return sample


def _check(kind: str | None, k: int | None, range_: int | None, inputs: str | None, *, floating: bool) -> None:
    """Refuse options that do not go together."""
    if not floating and kind is None:
        raise UsageError("is missing", where="--kind", remedy="name a randomizer, or give --float")
    if floating:
        given = {"--kind": kind, "--k": k, "--range": range_, "--inputs": inputs}
        for option, value in given.items():
            if value is not None:
                raise UsageError("does not go with --float", where=option, remedy="leave one of them out")


def _channel(
    kind: str, epsilon: str, k: int | None, range_: int | None, inputs: str | None, seed: int | None
) -> Audited:
    channel = build(kind, epsilon, k, range_)
    u, v = (0, channel.inputs - 1) if inputs is None else _pair(inputs)
    if max(u, v) >= channel.inputs:
        remedy = f"its inputs are 0 to {channel.inputs - 1}"
        raise UsageError(f"{quoted(inputs or '')} are not both inputs of it", where="--inputs", remedy=remedy)
    source = OsRandom() if seed is None else SimulatedRandom(seed)
    samplers = sampler_of(channel, u, source), sampler_of(channel, v, source)
    return Audited(kind, samplers, (u, v), channel.outcomes, channel.certified_micro_epsilon)


def _float_laplace(claimed: int, seed: int | None) -> Audited:
    scale = 2 * _BOUND * MICRO / claimed
    samplers = witness_samplers(-_BOUND, _BOUND, scale, np.random.default_rng(seed))
    return Audited("float-laplace", samplers, (-_BOUND, _BOUND), len(_EVENT), claimed)


def _pair(inputs: str) -> tuple[int, int]:
    parts = [part.strip() for part in inputs.split(",")]
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts) or parts[0] == parts[1]:
        raise UsageError(f"{quoted(inputs)} is not two inputs", where="--inputs", remedy="write it as 0,3")
    return int(parts[0]), int(parts[1])


def _answer(audited: Audited, epsilon: str, claimed: int, found: Audit, verdict: AuditVerdict) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "randomizer": audited.name,
        "epsilon": epsilon,
        "inputs": list(audited.inputs),
        "claimed_micro_epsilon": claimed,
        "reports_counted": found.samples,
        "failure": found.failure,
        "epsilon_lower_bound": found.epsilon_lower_bound,
        "event": list(found.event),
        "direction": found.direction.value,
        "verdict": verdict.value,
    }


def _text(answer: dict[str, Any]) -> str:
    outcomes: list[int] = answer["event"]
    event = ", ".join(map(str, outcomes[:8])) + (", …" if len(outcomes) > 8 else "")
    if answer["randomizer"] == "float-laplace":
        event = " or ".join(_EVENT[outcome] for outcome in outcomes)
    u, v = answer["inputs"]
    claimed = to_text(answer["claimed_micro_epsilon"])
    verdicts = {
        "violated": f"VIOLATED: it spends more than the ε = {claimed} that it claims",
        "consistent": f"consistent with ε = {claimed}; that nothing was found proves nothing",
    }
    return (
        f"{answer['randomizer']}, u = {u:g}, v = {v:g}: {counted(answer['reports_counted'], 'report')} counted\n"
        f"ε ≥ {answer['epsilon_lower_bound']:.4g} (wrong with probability {answer['failure']:g} at most), "
        f"seen on outcome {event} ({answer['direction']})\n"
        f"{verdicts[answer['verdict']]}"
    )
