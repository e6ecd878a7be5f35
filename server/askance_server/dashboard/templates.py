"""HTML from templates. All that comes in is text and is escaped; a name that a page does not give is an error."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from jinja2 import Environment, PackageLoader, StrictUndefined

from askance_server.dashboard import words
from askance_server.dashboard.assets import assets


@cache
def environment() -> Environment:
    """The templates of this package, and what they may call."""
    made = Environment(
        loader=PackageLoader("askance_server.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    # The library's types have its own globals only.
    cast("dict[str, Any]", made.globals)["asset"] = assets().address
    made.filters.update(words.FILTERS)
    return made


def rendered(template: str, **given: object) -> bytes:
    """A page, or a piece of one. For a thread, where it is long."""
    return environment().get_template(template).render(**given).encode()
