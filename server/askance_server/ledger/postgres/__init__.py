"""The ledger in PostgreSQL, which several replicas of the server share.

`ledger` tells how it works; `rows` reads what the tables hold, `audit` works it out again, `link` is the connection.
"""

from askance_server.ledger.postgres.ledger import PostgresLedger, audit_postgres

__all__ = ["PostgresLedger", "audit_postgres"]
