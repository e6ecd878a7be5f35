"""Questions: total, bounded, and exact, from a closed language."""

from askance_protocol.queries.query import (
    BooleanQuery,
    CellQuery,
    Cost,
    PreparedQuery,
    Query,
    RealQuery,
    measure,
    prepare,
    read_query,
)

__all__ = [
    "BooleanQuery",
    "CellQuery",
    "Cost",
    "PreparedQuery",
    "Query",
    "RealQuery",
    "measure",
    "prepare",
    "read_query",
]
