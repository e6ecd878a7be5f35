"""What k-means and the perceptron cost beside scikit-learn's, on exact answers and from users' reports.

Both sides have the same 20,000 examples. scikit-learn has all of them: k-means the best of ten starts, and for planes
the best of its perceptron, two logistic regressions and a support vector machine. It runs in an environment of its own:
one that is made for this and thrown away, or that of `--python`. A ratio of shares of mistakes has a thousandth added
on both sides: fewer mistakes say nothing of a plane.

Exits 6 where a cost on exact answers is more than 1.2 times scikit-learn's.

    python benchmarks/points.py [--python FILE] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from askance_client.population import Population
from askance_lab.data.made_up import made_up
from askance_lab.evaluation.weighted import WeightedExamples
from askance_lab.oracles.exact import Exact
from askance_lab.oracles.local import LocalReports, study_for
from askance_protocol.examples import Columns
from askance_server.core.strategy import Learnt, Parameters
from askance_server.strategies.kmeans import KMEANS
from askance_server.strategies.perceptron import PERCEPTRON

EXAMPLES: Final = 20_000
GOAL: Final = 1.2
USERS: Final = (10_000, 100_000, 1_000_000)
SEEDS: Final = 3
EPSILON: Final = "1"
FLOOR: Final = 0.001
EXACT: Final[Parameters] = {"tolerance": "0.00001", "rounds": 8}
"""Of the perceptron on exact answers, which cost nobody anything: it asks as exactly as it is answered."""


@dataclass(frozen=True, slots=True)
class Case:
    """A population, and how it is learned about."""

    name: str
    parameters: Parameters
    columns: Columns
    users: Population | None = None
    """None: there are as many as examples."""

    @property
    def k(self) -> int | None:
        """Number of centres; None: labels are learned."""
        return int(self.parameters["k"]) if "k" in self.parameters else None

    @property
    def points(self) -> NDArray[np.float64]:
        """The coordinates, a row for each example."""
        return np.stack([self.columns[f"x{j}"] for j in range(int(self.parameters["d"]))], axis=1) / 1000

    def cost(self, value: Learnt) -> float:
        """What a hypothesis costs on the examples."""
        if KMEANS.cost is not None and self.k is not None:
            return KMEANS.cost(value, self.columns)
        assert PERCEPTRON.predict is not None  # noqa: S101 - told the type checker
        return float((np.where(PERCEPTRON.predict(value, self.columns), 1, -1) != self.columns["y"]).mean())


def main() -> int:
    """Compare population by population and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, help="Python of an environment that has scikit-learn.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cases = all_cases()
    theirs = library_costs(options.python, cases)
    rows = [row(case, theirs[case.name]) for case in cases]
    missed = [each["population"] for each in rows if each["ratio"] > GOAL]
    if options.json:
        found = {"schema_version": 1, "examples": EXAMPLES, "goal": GOAL, "epsilon": EPSILON, "table": rows}
        print(json.dumps({**found, "missed": missed}, indent=1, ensure_ascii=False))
    else:
        print("\n".join(markdown(rows)))
    return 6 if missed else 0


def row(case: Case, theirs: float) -> dict[str, Any]:
    """Costs on one population and their ratios to scikit-learn's."""
    least = 0.0 if case.k else FLOOR
    strategy, exactly = (KMEANS, {}) if case.k else (PERCEPTRON, EXACT)
    learned = Exact(WeightedExamples(case.columns)).learn(strategy, {**case.parameters, **exactly})
    ours = case.cost(learned.hypothesis.value)
    told: dict[str, Any] = {
        "population": case.name,
        "strategy": strategy.name,
        "theirs": round(theirs, 5),
        "exact": round(ours, 5),
        "ratio": round((ours + least) / (theirs + least), 3),
    }
    if case.users is not None:
        costs = {users: statistics.median(local(case, users, seed) for seed in range(SEEDS)) for users in USERS}
        told["users"] = {str(users): round((cost + least) / (theirs + least), 2) for users, cost in costs.items()}
    return told


def local(case: Case, users: int, seed: int) -> float:
    """The cost of what is learned from so many users' reports, all of them asked."""
    assert case.users is not None  # noqa: S101 - told the type checker
    strategy = (KMEANS if case.k else PERCEPTRON).planned(case.parameters)
    study = study_for(strategy, {**case.parameters, "users": "all", "epsilon": EPSILON}, seed)
    return case.cost(
        LocalReports(study, strategy, case.users, users, seed).learn(strategy, case.parameters).hypothesis.value
    )


def markdown(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as a table of a document."""
    header = ["population", "scikit-learn", "exact answers", "ratio", *(f"{users:,} users" for users in USERS)]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for each in rows:
        far = [f"{each['users'][str(users)]:.2f}" if "users" in each else "" for users in USERS]
        cells = [each["population"], f"{each['theirs']:.5f}", f"{each['exact']:.5f}", f"{each['ratio']:.3f}", *far]
        lines.append(f"| {' | '.join(cells)} |")
    for strategy in ("kmeans", "perceptron"):
        ratios = [each["ratio"] for each in rows if each["strategy"] == strategy]
        lines.append(f"| **{strategy}** | | median {statistics.median(ratios):.3f} | worst {max(ratios):.3f} | | | |")
    return lines


# ------------------------------------------------------------------------------------------------------- populations


def all_cases() -> list[Case]:
    """Clusters and planes of all kinds."""
    return [*clusters(), *planes(), *hard_planes()]


def clusters() -> list[Case]:
    """Even and uneven clusters, apart and overlapping."""
    kinds = [
        *((d, k, "0.05", "0") for d, k in ((1, 5), (2, 3), (3, 8), (8, 5))),
        *((d, k, "0.1", "1.5") for d, k in ((1, 8), (2, 5), (3, 8), (4, 5), (8, 7))),
        *((d, k, "0.15", "0") for d, k in ((2, 8), (4, 8))),
        *((d, k, "0.02", "2") for d, k in ((2, 8), (4, 5))),
    ]
    found = list[Case]()
    for d, k, spread, zipf in kinds:
        users = made_up(KMEANS, {"d": d, "k": k}, 1, {"spread": spread, "zipf": zipf})
        shares = "even" if zipf == "0" else f"shares as 1/j^{zipf}"
        name = f"{k} clusters, {d} dimension{'s' * (d > 1)}, spread {spread}, {shares}"
        curve = users if (d, k) in {(1, 8), (2, 3), (2, 8), (4, 5)} else None
        found.append(Case(name, {"d": d, "k": k}, users.columns(range(EXAMPLES)), curve))
    return found


def planes() -> list[Case]:
    """The side of a plane, with a margin or with wrong labels."""
    found = list[Case]()
    for d in (2, 3, 4, 8):
        for margin, eta in (("0.1", "0"), ("0.02", "0"), ("0", "0.2"), ("0.05", "0.1")):
            users = made_up(PERCEPTRON, {"d": d}, 1, {"margin": margin, "eta": eta})
            name = f"plane, {d} dimensions, margin {margin}, {eta} of the labels wrong"
            curve = users if margin == "0.1" or (eta == "0.2" and d == 4) else None
            found.append(Case(name, {"d": d}, users.columns(range(EXAMPLES)), curve))
    return found


def hard_planes() -> list[Case]:
    """Columns that go together, uneven clouds, columns of several scales, a plane that is not through the middle."""
    source, found = np.random.default_rng(0), list[Case]()
    for d, together in ((4, 0.9), (8, 0.7)):
        mixing = np.linalg.cholesky(together * np.ones((d, d)) + (1 - together) * np.eye(d))
        points = 0.4 * source.normal(size=(EXAMPLES, d)) @ mixing.T
        right = points @ source.normal(size=d) > 0
        found.append(labelled(f"correlated columns ({together}), {d} dimensions", points, right))
        found.append(
            labelled(f"the same, 0.1 of the labels wrong, {d}", points, right ^ (source.random(EXAMPLES) < 0.1))
        )
    for d, share in ((3, 0.5), (3, 0.9), (8, 0.7)):
        right = source.random(EXAMPLES) < share
        middle, widths = source.uniform(-0.3, 0.3, d), source.uniform(0.1, 0.3, d)
        points = np.where(right, 1, -1)[:, np.newaxis] * middle + widths * source.normal(size=(EXAMPLES, d))
        points[:, -1] = 1
        found.append(labelled(f"two clouds, {share} in one, {d} dimensions", points, right))
    points = source.uniform(-1, 1, (EXAMPLES, 4)) * [1, 0.3, 0.1, 0.03]
    found.append(labelled("columns of four scales", points, points @ [1, 3, 10, -30] > 0))
    points = source.uniform(-1, 1, (EXAMPLES, 3))
    points[:, 2] = 1
    found.append(labelled("a plane beside the middle", points, points @ [1, -1, 0.6] > 0))
    return found


def labelled(name: str, points: NDArray[np.float64], right: NDArray[np.bool]) -> Case:
    """A population of just these examples."""
    d = points.shape[1]
    arrays = {f"x{j}": points[:, j].clip(-1, 1) for j in range(d)}
    columns = Columns.of(PERCEPTRON.schema({"d": d}), {**arrays, "y": np.where(right, 1, -1)})
    return Case(name, {"d": d}, columns)


# ------------------------------------------------------------------------------------------------------ scikit-learn


def library_costs(python: Path | None, cases: list[Case]) -> Mapping[str, float]:
    """scikit-learn's costs, from an environment that has it, or from one that is made for it."""
    with tempfile.TemporaryDirectory() as folder:
        if python is None:
            venv.create(folder, with_pip=True)
            python = Path(folder) / "bin" / "python"
            subprocess.run([python, "-m", "pip", "install", "--quiet", "scikit-learn"], check=True, stdout=sys.stderr)  # noqa: S603 - fixed names
        arrays = dict[str, NDArray[Any]]()
        for case in cases:
            arrays[f"{case.name}/{case.k or 'points'}"] = case.points
            if case.k is None:
                arrays[f"{case.name}/labels"] = case.columns["y"]
        file = Path(folder) / "points.npz"
        np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
        script = Path(__file__).with_name("points_libraries.py")
        done = subprocess.run([python, script, file], stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return json.loads(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
