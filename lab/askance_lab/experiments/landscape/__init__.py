"""The papers' picture, measured: LNI = NASQ ⊊ LI = SQ ⊊ PPAC = PAC (KLNRS11, Fig. 1), in users.

| module | what |
|---|---|
| `problems` | five concept classes, each with examples on which α matters |
| `queries` | POINT and INTERVAL by statistical queries: three learners that only the landscape needs |
| `learners` | every learner of every model, as one function of a problem, a number of users and a seed |
| `cells` | which learner stands for which class and model, by which theorem, and that theorem's bound |
| `measurement` | the search for the users needed, with an interval; what was measured is kept |
| `report` | tables and plots |
"""
