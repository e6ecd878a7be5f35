-- Schema 2: which key the replicas have. Tokens are signed with it, so that replicas with different keys would refuse
-- each other's users.

CREATE TABLE server_key (
    one         integer PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    fingerprint text    NOT NULL CHECK (fingerprint ~ '^[0-9a-f]{64}$')
);
COMMENT ON TABLE  server_key             IS 'The key that all replicas have to have: one row, written by the first that starts.';
COMMENT ON COLUMN server_key.one         IS 'There is one row.';
COMMENT ON COLUMN server_key.fingerprint IS 'A keyed digest of nothing but a name under the server key. It tells keys apart, and makes no token.';
