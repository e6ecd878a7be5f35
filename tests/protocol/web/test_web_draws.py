"""What the package computes in a real browser, and what it draws there and in Node."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, ncx2

from askance_protocol.budget import MICRO
from askance_protocol.channels import BinaryResponse, DiscreteLaplace, KaryResponse, TwoSidedGeometric
from tests.harness.browser import Pages
from tests.harness.tree import ROOT
from tests.protocol.web.scripts import planted, run
from tests.vectors import generate

DRAWS = 1_000_000
"""Far more than find a fault of a hundredth of the words with a probability of 1 − 10⁻⁶; see the test of it."""
CHANNELS: dict[str, list[Any]] = {
    "binary": ["binary", MICRO, 1],
    "kary": ["kary", MICRO, 5],
    "geometric": ["geometric", 2 * MICRO, 4],
    "laplace": ["laplace", 2 * MICRO, 4],
    "table": ["tabulated", [[str(weight) for weight in row] for row in KaryResponse(2 * MICRO, 3).table()]],
}
TABLES = {
    "binary": BinaryResponse(MICRO, 1),
    "kary": KaryResponse(MICRO, 5),
    "geometric": TwoSidedGeometric(2 * MICRO, 4),
    "laplace": DiscreteLaplace(2 * MICRO, 4),
    "table": KaryResponse(2 * MICRO, 3),
}
LEAST = 1e-6


class Tree(http.server.SimpleHTTPRequestHandler):
    """The files of the repository."""

    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript"}

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name for it
        """Nothing."""


@pytest.fixture
def address() -> Generator[str]:
    """The page of these tests, over plain HTTP."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Tree, directory=str(ROOT))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/tests/protocol/web/page.html"
        server.shutdown()


def improbable(drawn: dict[str, Any], names: list[str]) -> list[str]:
    """Channels whose counts differ from their own table in Python; by chance in one run of a million at most."""
    found = list[str]()
    for name in names:
        channel, counts = TABLES[name], np.array(drawn[name]["counts"])
        weights = channel.weights(channel.inputs - 1)
        assert [str(weight) for weight in weights] == drawn[name]["weights"]
        expected = counts.sum() * np.array([float(weight) for weight in weights]) / 2.0**64
        distance = float(((counts - expected) ** 2 / expected).sum())
        if chi2.sf(distance, len(counts) - 1) < LEAST:
            found.append(name)
    return found


@pytest.mark.slow
def test_a_million_draws_of_each_channel_are_as_its_table_says(tmp_path: Path) -> None:
    drawn = run("draws.mjs", {"count": DRAWS, "channels": CHANNELS}, tmp_path)

    assert all(sum(drawn[name]["counts"]) == DRAWS for name in CHANNELS)
    assert improbable(drawn, list(TABLES)) == []


def test_words_that_are_fetched_together_are_those_of_the_generator_each_once(tmp_path: Path) -> None:
    """To count draws, a generator is asked for many words at once: none is left out, and none is given twice."""
    two = run("fetching.mjs", {"size": 2, "count": 20_000}, tmp_path)

    assert two == {"words": list(range(40_000)), "restored": True}
    # The control: by threes, of which no block is a multiple, the last word of each is left out.
    three = run("fetching.mjs", {"size": 3, "count": 20_000}, tmp_path)["words"]
    assert three != list(range(60_000))


def missed(draws: int) -> float:
    """The probability that so many binary draws hide that a hundredth of the words is the last one."""
    table = np.array([float(weight) for weight in TABLES["binary"].weights(1)]) / 2.0**64
    faulty = 0.99 * table + 0.01 * np.array([1.0, 0.0])
    return float(ncx2.cdf(chi2.isf(LEAST, 1), 1, draws * ((faulty - table) ** 2 / table).sum()))


def test_a_fault_of_a_hundredth_would_be_found_in_so_many() -> None:
    assert missed(DRAWS) < LEAST
    # The control: a tenth of them would not do.
    assert missed(DRAWS // 10) > LEAST


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "changes"),
    [
        # A hundredth of all words is the last one.
        ("randomness.mjs", {"crypto.getRandomValues(new Uint32Array(2))": (
            "crypto.getRandomValues(new Uint32Array(2)).map((half, _, all) => (all[0] % 100 ? half : 0xffffffff))"
        )}),
        # A cut-point is the one beside it.
        ("channels.mjs", {"this.high[first + at] < word[0]": "this.high[first + at] < word[0] - 2 ** 26"}),
    ],
    ids=["the words", "the comparison"],
)  # fmt: skip
def test_control_a_fault_of_a_hundredth_is_found(tmp_path: Path, module: str, changes: dict[str, str]) -> None:
    copied = planted(tmp_path, module, changes)
    # Where the first words and the last have one outcome, to move all cut-points changes nothing: it is asked of one
    # channel in which they have not.
    drawn = run("draws.mjs", {"count": DRAWS, "channels": {"binary": CHANNELS["binary"]}}, tmp_path, modules=copied)

    assert improbable(drawn, ["binary"]) == ["binary"]


# --------------------------------------------------------------------------------------------------- in a browser


@pytest.mark.slow
def test_all_vectors_hold_in_a_browser_without_crypto_subtle(pages: Pages, address: str) -> None:
    page = pages.open(address)
    page.wait_for_function("() => globalThis.vectors")
    said: list[str] = page.evaluate("(names) => vectors(names)", list(generate.files()))

    successes = {name: [each["success"] for each in content["vectors"]] for name, content in generate.files().items()}
    lines = {f"{name}: {each.count(True)} good, {each.count(False)} bad" for name, each in successes.items()}
    assert set(said) == lines | {f"{sum(map(len, successes.values()))} vectors checked, 0 differ"}


@pytest.mark.slow
def test_a_million_draws_in_a_browser_are_as_the_table_says(pages: Pages, address: str) -> None:
    page = pages.open(address)
    page.wait_for_function("() => globalThis.draws")
    drawn: Any = {}
    for name, parameters in CHANNELS.items():
        drawn |= page.evaluate("([count, channels]) => draws(count, channels)", [DRAWS, {name: parameters}])

    assert all(sum(drawn[name]["counts"]) == DRAWS for name in CHANNELS)
    assert improbable(drawn, list(TABLES)) == []
