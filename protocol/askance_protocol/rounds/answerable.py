"""What clients answer at all: a floor under the charge of a round, and a bound on the rounds of a study.

Theory of operation
-------------------
A report tells more than its outcome. A server sees when it comes, and whatever of her example has moved that moment, a
little, is averaged out of many rounds. The channel's ε does not cover it. So each timing has a price, and their number
a bound:

- *Floor.* From version 0.1, whose steps depended on the example, fifty timings told all-zero examples from random ones
  with ε ≥ .23, which is less than .005 each. `LEAST_CHARGE` is twice that: what a round takes from a user's budget is
  more than what its moment was ever measured to tell, also where the channel itself is almost free.
- *Bound.* `MOST_ROUNDS` is what ε = 1 buys at the floor, and three times as many as any strategy here declares (32). An
  honest server asks nobody twice in a study; this binds one that does.

Both are no part of the documents: older studies stay readable, and another implementation may be stricter. A client
refuses what is beyond (`askance_client.consent`), and a server does not open a study that clients would refuse
(`askance_server.core.study`).
"""

from __future__ import annotations

from typing import Final

from askance_protocol.budget import MICRO

LEAST_CHARGE: Final = MICRO // 100
"""Micro-ε that a round has to charge at least, in each of its parts."""

MOST_ROUNDS: Final = MICRO // LEAST_CHARGE
"""Rounds that a study may publish."""
