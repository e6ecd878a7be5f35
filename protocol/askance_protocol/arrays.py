"""Types of arrays that all rooms use: one name for each kind of element."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Truths: TypeAlias = NDArray[np.bool]

Whole: TypeAlias = int | np.int64
"""One integer. In 64 bits it takes one time whatever it is; Python makes new objects for most, not for small ones."""
