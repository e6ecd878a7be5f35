"""The ledger in PostgreSQL, which several replicas of the server share.

`ledger` tells how it works; `rows` reads what the tables hold, `seals` are sums over them, `audit` compares and works
out again, `opening` migrates, `dumping` takes a ledger to a file and back, `link` is the connection.
"""

from askance_server.ledger.postgres.ledger import PostgresLedger, audit_postgres
from askance_server.ledger.postgres.opening import schema_at

__all__ = ["PostgresLedger", "audit_postgres", "schema_at"]
