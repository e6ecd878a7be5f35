"""Colours of what a terminal shows, each to be read on a light window and on a dark one.

A terminal's own red and green are made for one of the two: xterm's green on white has a contrast of 2, GNOME's red on
its dark of 3. These are fixed: at least 3.9 on white, on black and on GNOME's dark, where 4.3 is the most that any
colour has on all of them. Nothing is told by a colour alone.
"""

from __future__ import annotations

from typing import Final

RIGHT: Final = "color(29)"
WRONG: Final = "color(196)"
REST_OF_A_BAR: Final = "grey50"
"""Rich's own is nearly black, and on a light window darker than what is done."""
