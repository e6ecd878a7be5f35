"""Measurements over many seeds, all by one harness.

| module | what |
|---|---|
| `trials` | many trials over an engine, each result kept as soon as it is there |
| `checkpoint` | the file in which they are kept |
| `sample_size` | the search for the number of users that a learner needs |
| `figure` | plots, as SVG and PNG |
| `separation` | rounds against no rounds (`askance separation`) |
| `landscape` | five classes in four models (`askance landscape`) |
| `audit`, `converse`, `float_laplace`, `refutation` | single claims of the texts, put to the test |
"""
