"""The papers' picture, measured: LNI = NASQ ⊊ LI = SQ ⊊ PPAC = PAC (KLNRS11, Fig. 1), in users.

| module | what |
|---|---|
| `queries` | POINT and INTERVAL by statistical queries: three learners that only the landscape needs |
| `learners` | strategies, a curator's mechanisms and plain rules as functions of a problem and a seed |
| `cells` | each learner with its class, its model, its theorem, and that theorem's bound |
| `measurement` | the search for the users needed, with an interval; what was measured is kept |
| `report` | tables and plots |

The problems, five concept classes with examples on which α matters, are in `data.problems`.
"""
