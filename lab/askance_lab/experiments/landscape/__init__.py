"""The papers' picture, measured: LNI = NASQ ⊊ LI = SQ ⊊ PPAC = PAC (KLNRS11, Fig. 1), in users.

| module | what |
|---|---|
| `queries` | POINT and INTERVAL by statistical queries: three learners that only the landscape needs |
| `learners` | every learner of every model, a function of a problem (`data.problems`), its targets and a seed |
| `cells` | which learner stands for which class and model, by which theorem, and that theorem's bound |
| `measurement` | the search for the users needed, with an interval (`sample_size`, run by `trials`) |
| `report` | tables and plots |

The problems, five concept classes with examples on which α matters, are in `data.problems`.
"""
