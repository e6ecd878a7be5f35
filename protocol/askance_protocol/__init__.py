"""The protocol that client and server share: pure values, no I/O, no clock, no framework.

A user's device needs no more than this package, which needs numpy, pydantic and cryptography. Estimates and sample
sizes belong to the aggregator: `askance_server.core`.
"""

from askance_protocol.budget import Account, BudgetExceededError, charge_from_text, limit_from_text
from askance_protocol.channels import (
    BinaryResponse,
    Channel,
    DiscreteLaplace,
    KaryResponse,
    Sample,
    TabulatedChannel,
    TwoSidedGeometric,
)
from askance_protocol.coins import Coin
from askance_protocol.errors import AskanceError, Code, ProtocolError
from askance_protocol.examples import Columns, Example
from askance_protocol.queries import BooleanQuery, CellQuery, PreparedQuery, Query, RealQuery, prepare, read_query
from askance_protocol.randomness import OsRandom, RandomSource, SimulatedRandom
from askance_protocol.reports import ReportBatch, decode_report, encode_report
from askance_protocol.rounds import (
    BinarySpec,
    Bulletin,
    Cohort,
    Entry,
    GeometricSpec,
    HashSpec,
    KarySpec,
    LaplaceSpec,
    Part,
    PreparedRound,
    RoundSpec,
    StudySpec,
    TableSpec,
    prepare_round,
    read_entry,
    read_round,
    read_study,
)
from askance_protocol.schema import BitsField, CategoryField, IntegerField, LabelField, RealField, Schema

__all__ = [
    "Account",
    "AskanceError",
    "BinaryResponse",
    "BinarySpec",
    "BitsField",
    "BooleanQuery",
    "BudgetExceededError",
    "Bulletin",
    "CategoryField",
    "CellQuery",
    "Channel",
    "Code",
    "Cohort",
    "Coin",
    "Columns",
    "DiscreteLaplace",
    "Entry",
    "Example",
    "GeometricSpec",
    "HashSpec",
    "IntegerField",
    "KaryResponse",
    "KarySpec",
    "LabelField",
    "LaplaceSpec",
    "OsRandom",
    "Part",
    "PreparedQuery",
    "PreparedRound",
    "ProtocolError",
    "Query",
    "RandomSource",
    "RealField",
    "RealQuery",
    "ReportBatch",
    "RoundSpec",
    "Sample",
    "Schema",
    "SimulatedRandom",
    "StudySpec",
    "TableSpec",
    "TabulatedChannel",
    "TwoSidedGeometric",
    "charge_from_text",
    "decode_report",
    "encode_report",
    "limit_from_text",
    "prepare",
    "prepare_round",
    "read_entry",
    "read_query",
    "read_round",
    "read_study",
]
