-- Schema 1: users, bulletins, rounds, and the log of accepted reports.

CREATE TABLE enrolments (
    first_user INTEGER PRIMARY KEY CHECK (first_user >= 0), -- the first of a run of users who enrolled alike
    users INTEGER NOT NULL CHECK (users > 0),               -- the length of the run; the next run follows
    cap INTEGER NOT NULL CHECK (cap > 0)                    -- what each may ever spend, in micro-epsilon
);

CREATE TABLE epochs (
    user INTEGER PRIMARY KEY CHECK (user >= 0),             -- a user whose tokens were revoked
    epoch INTEGER NOT NULL CHECK (epoch > 0)                -- what her valid tokens carry; 0 for users not listed
);

CREATE TABLE entries (
    study TEXT NOT NULL CHECK (length(study) = 64),         -- digest of the study
    sequence INTEGER NOT NULL CHECK (sequence >= 0),        -- place on the study's bulletin
    digest TEXT NOT NULL UNIQUE CHECK (length(digest) = 64),-- digest of the entry: what the next one carries
    body BLOB NOT NULL,                                     -- the entry's canonical JSON
    PRIMARY KEY (study, sequence)
);

CREATE TABLE rounds (
    number INTEGER PRIMARY KEY,                             -- short name of the round in the log
    id TEXT NOT NULL UNIQUE CHECK (length(id) = 64),        -- digest of the round
    study TEXT NOT NULL CHECK (length(study) = 64)          -- digest of its study
);

CREATE TABLE report_groups (
    id INTEGER PRIMARY KEY AUTOINCREMENT,                   -- order of acceptance
    round INTEGER NOT NULL REFERENCES rounds (number),      -- the round that all reports of the group answer
    reports INTEGER NOT NULL CHECK (reports > 0),           -- number of reports in the group
    users BLOB NOT NULL                                     -- user numbers, little-endian, 4 or 8 bytes each
        CHECK (length(users) IN (4 * reports, 8 * reports)),
    outcomes BLOB NOT NULL                                  -- their outcomes, little-endian, 1, 2 or 4 bytes each
        CHECK (length(outcomes) IN (reports, 2 * reports, 4 * reports)),
    checksum BLOB NOT NULL CHECK (length(checksum) = 16)    -- BLAKE2b of round, users and outcomes
);
CREATE INDEX groups_of_a_round ON report_groups (round);

CREATE TABLE heartbeat (
    one INTEGER PRIMARY KEY CHECK (one = 1),                -- there is one row
    beats INTEGER NOT NULL                                  -- counts the writes that only test whether writing works
);
