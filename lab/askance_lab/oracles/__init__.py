"""Oracles: what answers a strategy's statistical queries (KLNRS11, Def. 5.4). The same generator runs against each.

| module | oracle | text |
|---|---|---|
| `exact` | the expectation itself | KLNRS11, Def. 5.4 with no error |
| `adversarial` | O, which hides the mask; one that lies by ±τ | KLNRS11, Thm 5.16(2); Def. 5.4 |
| `samples` | means over fresh examples, also where labels are noisy | BB-notes, Thms 6 and 8 |
| `curator` | noisy counts over disjoint chunks, by a curator who sees all examples | BB-notes, Thm 7 as repaired |
| `fresh` | local reports, a portion of the users for each query | KLNRS11, Thm 5.7 |
| `fresh_laplace` | the same, with the papers' Laplace noise | KLNRS11, Thm 5.7 |
| `local` | local reports, as the server plans them | `run_study` |
| `http` | the same, over a server | |

Every module here is one oracle, found by its file name, and ends with its `ORACLE`; `shared` has what several need.
"""
