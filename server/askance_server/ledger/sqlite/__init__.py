"""The embedded ledger: one SQLite file under a data directory, kept by one process.

`ledger` tells how it works, `log` holds groups of reports and their checksums, `opening` locks, connects and migrates.
"""

from askance_server.ledger.sqlite.ledger import SqliteLedger
from askance_server.ledger.sqlite.opening import FILE

__all__ = ["FILE", "SqliteLedger"]
