-- Schema 2: what users have spent up to a group of the log, so that opening need not read the groups before it.

CREATE TABLE checkpoints (
    last_group INTEGER PRIMARY KEY,                         -- the last group that is counted in
    spent BLOB NOT NULL,                                    -- micro-epsilon of each user, 8 bytes little-endian
    checksum BLOB NOT NULL CHECK (length(checksum) = 16)    -- BLAKE2b of last_group and spent
);
