"""A trusted curator: every central-model algorithm of the texts, one mechanism or learner a file.

She sees all the examples, and only what she says is private. So this is the comparison, not the product: LI = SQ on the
user's own device against PPAC = PAC with somebody whom everybody trusts (KLNRS11, Fig. 1).

| | modules |
|---|---|
| what the rest stands on | `draws`, `privacy`, `distributions`, `databases` |
| mechanisms | `laplace`, `geometric`, `exponential`, `distance` (A_dist), `choosing` |
| learners, ε | `generic`, `walsh`, `piecewise`, `sauer`, `compression`, `label_private` |
| the PARITY learner | `affine`, `parity`, `retry`, `train_test` |
| learners, (ε,δ) | `point`, `rec`, `rec_plan`, `interval` |
| sanitizers | `point_sanitizer`, `interval_sanitizer`, `interval_sanitizer_plan`, `proper`, `sanitizer_learner` |
"""
