"""A trusted curator: every central-model algorithm of the texts, one mechanism or learner in each file.

A curator sees all the examples, and only what she says is private. So this is the comparison, not the product: LI = SQ
on the user's own device against PPAC = PAC with a curator whom all users trust (KLNRS11, Fig. 1).

A module that ends with a `MECHANISM` is a mechanism, a learner or a sanitizer, whole; `registry` finds it. The others
support them.

| | modules |
|---|---|
| what a mechanism is | `mechanism`, `concepts` (classes, hypotheses), `registry`, `errors` |
| what the rest stands on | `draws`, `privacy`, `distributions`, `databases`, `search` |
| what `askance curator` adds | `inputs`, `own_rows`, `render` |
| mechanisms | `laplace`, `geometric`, `exponential`, `a_dist` (by `distance`), `choosing` |
| the generic learner, ε | `generic_parity`, `generic_masked_parity`, `generic_conjunction` (by `generic`) |
| and at any d | `generic_point`, `generic_interval` (by `piecewise`) |
| other learners, ε | `sauer`, `compression`, `label_private` |
| the PARITY learner | `parity`, `retry`, `insist`, `train_test` (by `affine`) |
| learners, (ε,δ) | `point`, `interval` (by `rec`, `rec_plan`) |
| sanitizers | `point_sanitizer`, `interval_sanitizer` (by `interval_sanitizer_plan`), `sanitizer_learner` |
| and their databases | `sanitizer_error` |
"""
