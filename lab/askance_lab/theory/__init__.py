"""What the texts state, what holds, and how few users can do: a record for each theorem.

A formula is a pure function on plain numbers. A name ending in `_stated` is what the text says, to the letter: use it
to draw or to compare, never to plan. `_repaired` is what its proof gives once the slip is mended. `_exact` and `_sharp`
are better than the text's own argument. Where a text has only O(), the function takes the `constant` from the caller.

Each module ends with its `THEOREMS`, frozen records of these formulas; `theorem.theorems()` finds them all, and
`askance theory` prints them.

| module | what | texts |
|---|---|---|
| `theorem` | what a record is, and all of them by name | |
| `concentration` | Chernoff, Hoeffding, sums of Laplace variables | KLNRS11 App. A, KLNRS08 L4.2 |
| `local` | SQ by local randomizers and back, SQ by sampling and under label noise | KLNRS11 §5.1, BB-notes T5, T6, T8 |
| `masked_parity` | A_MP, the pooled round, the noninteractive learner, lower bounds | KLNRS11 §5.2-5.3, KLNRS08 T5.1 |
| `limits` | how few users MASKED-PARITY can do with, in one round and in several | |
| `question_limits` | the same of a mean, shares, a quantile, heavy strings | |
| `learner_limits` | how few users PARITY and conjunctions can do with in one round | |
| `mechanisms` | Laplace, geometric, exponential | BB-notes T3, N21 §2, BNS13 P1 |
| `central` | generic learners, SQ with a curator, label privacy | KLNRS11 §3, KLNRS08 T3.7, BB-notes T7, BNS13 T7 |
| `parity` | the PARITY learner A and both amplifications A* | KLNRS11 §4, KLNRS08 §3.2 |
| `approximate` | A_dist, POINT, Rec, INTERVAL | BNS13 §2-3 |
| `sanitizers` | the choosing mechanism, sanitizers, sanitizer to learner | BNS13 §4-5 |
| `targets` | ε, δ, α and β that learners are compared at | |

The short names of the texts, and the traps that the docstrings name, are those of docs/theory.md.
"""
