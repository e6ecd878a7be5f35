"""Wallets in folders that were made a moment ago, and what a power cut leaves of them (`tests.harness.power`).

This module, run as a program, records one life and writes the record to a file: the child that it follows opens new
wallets and draws reports, and says of each when it may be sent. `lost` cuts the power anywhere in the record.
"""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from askance_client import Identity, Wallet, WalletFile
from askance_client.simulation.fleet import FleetShard, shards_of
from askance_client.wallet import durable, layout
from askance_protocol.budget import MICRO
from tests.harness.power import Cut, Record, Say, lay_out, record

OWNERS: Final = 3
REPORTS: Final = 2
CAP: Final = REPORTS * MICRO
STUDY: Final = "a" * 64

FLEET: Final = Path("made", "wallets")
LONE: Final = Path("hers", "askance.wallet")


def report(file: WalletFile, owner: int, say: Say) -> None:
    """An owner's reports, each said when it is stored: from then on it may be sent."""
    wallet = Wallet(file, owner)
    for number in range(REPORTS):
        wallet.draw_and_store(STUDY, f"{number:064x}", MICRO, lambda: b"drawn")
        say(str(owner))


def fleet(root: Path, say: Say) -> None:
    """The wallets of a fleet, in a folder that it makes."""
    [shard] = shards_of(FleetShard("http://127.0.0.1:1", range(OWNERS), root / FLEET, CAP), 1)
    with closing(WalletFile.open(shard.wallets)) as file:
        file.add_all([(owner, CAP, Identity(shard.url, owner, "token")) for owner in range(OWNERS)])
        for owner in range(OWNERS):
            report(file, owner, say)


def lone(root: Path, say: Say) -> None:
    """One wallet, in a folder that she has made for it."""
    path = root / LONE
    path.parent.mkdir()
    with closing(Wallet.open(path, cap=CAP)) as wallet:
        report(wallet._file, 0, say)


LIVES: Final[dict[str, Callable[[Path, Say], None]]] = {"fleet": fleet, "lone": lone}


def recorded(folder: Path, life: str, twin: str = "") -> Record:
    """The record of a life, or of its twin."""
    target, root = folder / "record", folder / "disk"
    root.mkdir()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-m", __name__, life, twin, root, target], check=True, env=environment)
    found: Record = pickle.loads(target.read_bytes())
    assert found.exit == 0, "a life has ended by itself"
    return found


def program(life: str, twin: str, root: str, target: str) -> None:
    """Record a life."""
    if twin == "ForgetsNames":
        durable.sync_names = layout.sync_names = lambda directory: None  # type: ignore[misc]
    Path(target).write_bytes(pickle.dumps(record(Path(root), lambda say: LIVES[life](Path(root), say))))


def lost(found: Record, folder: Path, life: str, cuts: int, seed: int) -> Iterator[str]:
    """What is wrong after the power was cut at so many places, each time with another share of what was not synced."""
    dice = random.Random(seed)
    path = FLEET / "crew-0-of-1.wallets" if life == "fleet" else LONE
    for number in range(cuts):
        cut = Cut(dice.randint(0, len(found.events)), dice.choice((0, 0, 0.1, 0.5, 0.9, 1)), dice.getrandbits(32))
        after = folder / f"after-{number}"
        after.mkdir()
        lay_out(found, cut, after)
        sent = [int(owner) for owner in found.said(cut.at)]
        if sent and not (after / path).exists():
            yield f"{cut}: {len(sent)} reports may have been sent, and the next wallet comes with a fresh cap"
        elif sent:
            with closing(WalletFile.open(after / path)) as file:
                for owner in set(sent):
                    if len(Wallet(file, owner).reports) < sent.count(owner):
                        yield f"{cut}: owner {owner} has sent reports of which her wallet knows nothing"


if __name__ == "__main__":
    program(*sys.argv[1:])
