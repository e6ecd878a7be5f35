"""Every sample bound of the papers, as stated and as repaired, and the planner's own.

A room of pure functions on plain numbers. A name ending in `_stated` is what the text says, to the letter: use it to
draw or to compare, never to plan. `_repaired` is what its proof gives once the slip is mended. `_exact` and `_sharp`
are better than the text's own argument. Where a text has only O(), the function takes the `constant` from the caller.

| module | what | texts |
|---|---|---|
| `checks` | the pre-conditions, and the one careful ceiling | |
| `tails` | Chernoff, Hoeffding, sums of Laplace variables | KLNRS11 App. A, KLNRS08 L4.2 |
| `local` | SQ by local randomizers and back, SQ by sampling and under label noise | KLNRS11 §5.1, BB-notes T5, T6, T8 |
| `masked_parity` | A_MP, the pooled round, the noninteractive learner, lower bounds | KLNRS11 §5.2-5.3, KLNRS08 T5.1 |
| `mechanisms` | Laplace, geometric, exponential | BB-notes T3, N21 §2, BNS13 P1 |
| `central` | generic learners, SQ with a curator, label privacy | KLNRS11 §3, KLNRS08 T3.7, BB-notes T7, BNS13 T7 |
| `parity` | the PARITY learner A and both amplifications A* | KLNRS11 §4, KLNRS08 §3.2 |
| `approximate` | A_dist, POINT, Rec, INTERVAL | BNS13 §2-3 |
| `sanitizers` | the choosing mechanism, sanitizers, sanitizer to learner | BNS13 §4-5 |
| `planners` | users needed by exact binomial tails; needs scipy, so nothing here imports it | |

The short names of the texts, and the traps the docstrings name, are those of THEORY.md.
"""
