"""Oracles: who answers a strategy's statistical queries (KLNRS11, Def. 5.4). The same generator runs against each.

| module | oracle | text |
|---|---|---|
| `exact` | the expectation itself | KLNRS11, Def. 5.4 with no error |
| `adversarial` | O, which hides the mask; one that lies by ±τ | KLNRS11, Thm 5.16(2); Def. 5.4 |
| `samples` | means over fresh examples, also where labels are noisy | BB-notes, Thms 6 and 8 |
| `curator` | noisy counts over disjoint chunks, by whoever sees all examples | BB-notes, Thm 7 as repaired |
| `fresh` | local reports, a portion of the users for each query | KLNRS11, Thm 5.7 |
| `pooled` | local reports, as the server plans them | THEORY.md §1, "One pooled round" |
| `http` | the same, over a server | |

`oracle` has the interface and `run(strategy, parameters, oracle)`. `weighted`, `domain` and `crowds` say whom an oracle
looks at, `portions` how users are dealt to queries, `engines` where they are simulated, `catalogue` builds the oracles
that `askance run` knows by name.
"""
