-- Schema 3: a seal over each table, so that what anything but this program has changed is found.
-- The migration goes on in askance_server.ledger.sqlite.seals, which seals the rows that there are.

CREATE TABLE seals (
    name TEXT PRIMARY KEY,                                  -- the table that is sealed
    rows INTEGER NOT NULL CHECK (rows >= 0),                -- number of its rows
    sum BLOB NOT NULL CHECK (length(sum) = 32),             -- sum of its rows' digests modulo 2^256, little-endian
    commits INTEGER NOT NULL CHECK (commits >= 0)           -- number of commits that have changed it
);

CREATE TABLE server_keys (
    number INTEGER PRIMARY KEY,                             -- order of use; the last is the key that is in use
    fingerprint TEXT NOT NULL CHECK (length(fingerprint) = 64) -- tells the key from another one, and nothing else of it
);
