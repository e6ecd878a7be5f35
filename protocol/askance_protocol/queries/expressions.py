"""The former place of `queries.language`."""

from askance_protocol.queries.language import *  # noqa: F403 - until every importer has moved
