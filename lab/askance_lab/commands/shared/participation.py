"""What `askance fleet` and `askance client` share: which study to take part in, with which examples, how fast."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final

import numpy as np

from askance_client import Server
from askance_client.population import Population
from askance_client.tables import from_file
from askance_lab.remote.study_client import unwrap
from askance_protocol.errors import UsageError
from askance_protocol.schema import Schema

_POLL: Final = 0.2


async def next_study(url: str, done: Set[str], wait: float) -> Mapping[str, Any]:
    """The oldest study that takes reports and is not among those done; waits until there is one."""
    end = time.monotonic() + wait
    async with Server(url) as server:
        while time.monotonic() < end:
            for study in unwrap(await server.studies()):
                if study["state"] in {"running", "sealed"} and study["id"] not in done:
                    return study
            await asyncio.sleep(_POLL)
    raise UsageError(f"no study appeared in {wait:g} s", where="--wait", remedy="open one: askance demo --server URL")


def population_for(study: Mapping[str, Any], seed: int, data: Path | None) -> Population:
    """The users of a study: the rows of a file, or simulated as its strategy wants them."""
    spec = study["study"]
    if data is not None:
        return from_file(data, schema=Schema.model_validate_json(json.dumps(spec["example"])))
    # They plan, which takes scipy: a person with an example of her own has the base install alone.
    from askance_lab.data.made_up import made_up  # noqa: PLC0415
    from askance_server.core.study import strategy_named  # noqa: PLC0415
    from askance_server.strategies.registry import registry  # noqa: PLC0415

    return made_up(strategy_named(registry(), spec["strategy"]), spec["parameters"], seed)


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds within which 50, 90, 99 and 100 % of the reports were acknowledged."""
    if not seconds:
        return {}
    shares = (50, 90, 99, 100)
    values = np.percentile(np.array(seconds) * 1000, shares).round(2).tolist()
    return {f"p{share}_milliseconds": value for share, value in zip(shares, values, strict=True)}
