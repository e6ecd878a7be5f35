"""The embedded ledger: one SQLite file under a data directory, kept by one process.

`ledger` tells how it works, `log` holds groups of reports and their checksums, `opening` locks, connects and migrates,
`seals` tells how damage is found, and `audit` looks for it.
"""

from askance_server.ledger.sqlite.audit import audit as audit_sqlite
from askance_server.ledger.sqlite.ledger import SqliteLedger
from askance_server.ledger.sqlite.opening import FILE, schema_behind

__all__ = ["FILE", "SqliteLedger", "audit_sqlite", "schema_behind"]
