"""The embedded ledger: one SQLite file under a data directory, kept by one process.

`ledger` tells how it works, `log` holds groups of reports and their checksums, `opening` locks, connects and migrates,
`seals` tells how damage is found, `audit` looks for it, and `copying` copies a ledger beside its server.
"""

from askance_server.ledger.sqlite.audit import audit as audit_sqlite
from askance_server.ledger.sqlite.copying import LedgerMoment, copy_ledger, moment_of
from askance_server.ledger.sqlite.ledger import SqliteLedger
from askance_server.ledger.sqlite.opening import FILE, refuse_in_use, schema_behind
from askance_server.ledger.sqlite.seals import COMMITS_FILE, read_commits

__all__ = [
    "COMMITS_FILE",
    "FILE",
    "LedgerMoment",
    "SqliteLedger",
    "audit_sqlite",
    "copy_ledger",
    "moment_of",
    "read_commits",
    "refuse_in_use",
    "schema_behind",
]
