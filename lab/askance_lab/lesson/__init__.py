"""A teacher's hour: the pictures of docs/notebooks, each a function that returns its numbers, which draw themselves.

| module | what |
|---|---|
| `picture` | what a picture is: numbers, a table, a figure; and `holds`, which says whether a sentence is true |
| `randomized_response` | one report, many reports, and what ε is |
| `float_laplace` | noise that looks private and is not |
| `composition` | what several answers of one person add up to |
| `separation` | what is learned in rounds and not at once |
| `planning` | how many users a study needs, and whether so many suffice |

The notebooks, the documents and the tests all call these functions, so they show the same.
"""

from askance_lab.lesson.composition import asked_again, split_or_shared, wallet_steps
from askance_lab.lesson.float_laplace import laplace_reports, reachable_doubles, ruled_out
from askance_lab.lesson.picture import holds
from askance_lab.lesson.planning import studies_repeated, users_by_tolerance
from askance_lab.lesson.randomized_response import belief_after_report, privacy_by_epsilon, share_told
from askance_lab.lesson.separation import right_by_users, users_by_dimension

__all__ = [
    "asked_again",
    "belief_after_report",
    "holds",
    "laplace_reports",
    "privacy_by_epsilon",
    "reachable_doubles",
    "right_by_users",
    "ruled_out",
    "share_told",
    "split_or_shared",
    "studies_repeated",
    "users_by_dimension",
    "users_by_tolerance",
    "wallet_steps",
]
