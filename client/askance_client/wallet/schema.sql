-- The tables and triggers of a wallet file, version 1. The application id and the version are set by file.py.
-- A text in raise(ABORT, ...) is an identifier of the file format: files that exist hold it in their triggers, and
-- errors.py compares it. So none is ever reworded.

CREATE TABLE owners (
    id INTEGER PRIMARY KEY,                                   -- whose wallet this is; 0 where there is one
    cap INTEGER NOT NULL CHECK (cap > 0),                     -- what she will ever spend, in micro-epsilon
    elsewhere INTEGER NOT NULL DEFAULT 0 CHECK (elsewhere >= 0), -- spent by other copies of this wallet
    server TEXT,                                              -- the server that knows her
    user_number INTEGER CHECK (user_number >= 0),             -- her number there
    token TEXT                                                -- proves it
);
CREATE TABLE pins (
    owner INTEGER NOT NULL REFERENCES owners (id),
    study TEXT NOT NULL CHECK (length(study) = 64),           -- digest of the study
    length INTEGER NOT NULL CHECK (length > 0),               -- how many entries of its bulletin she has seen
    head TEXT NOT NULL CHECK (length(head) = 64),             -- digest of the last of them
    PRIMARY KEY (owner, study)
) WITHOUT ROWID;
CREATE TABLE reports (
    owner INTEGER NOT NULL REFERENCES owners (id),
    round TEXT NOT NULL CHECK (length(round) = 64),           -- digest of the round
    charge INTEGER NOT NULL CHECK (charge > 0),               -- what it cost, in micro-epsilon
    body BLOB NOT NULL,                                       -- what is sent, and sent again
    state TEXT NOT NULL DEFAULT 'kept'                        -- see ReportState
        CHECK (state IN ('kept', 'acknowledged', 'declined')),
    PRIMARY KEY (owner, round)
) WITHOUT ROWID;
CREATE TABLE heard (
    owner INTEGER NOT NULL REFERENCES owners (id),
    round TEXT NOT NULL CHECK (length(round) = 64),           -- digest of a round that a copy has answered
    charge INTEGER NOT NULL CHECK (charge >= 0),              -- what it cost, as the server said
    PRIMARY KEY (owner, round)
) WITHOUT ROWID;
CREATE TRIGGER within_the_cap BEFORE INSERT ON reports
WHEN new.charge + (SELECT coalesce(sum(charge), 0) FROM reports WHERE owner = new.owner)
    > (SELECT cap - elsewhere FROM owners WHERE id = new.owner)
BEGIN SELECT raise(ABORT, 'beyond the cap'); END;
CREATE TRIGGER reports_stay BEFORE UPDATE OF owner, round, charge, body ON reports
BEGIN SELECT raise(ABORT, 'a report is never changed'); END;
-- REPLACE deletes without asking the triggers of a deletion.
CREATE TRIGGER reports_are_not_replaced BEFORE INSERT ON reports
WHEN EXISTS (SELECT 1 FROM reports WHERE owner = new.owner AND round = new.round)
BEGIN SELECT raise(ABORT, 'a report is never changed'); END;
CREATE TRIGGER reports_are_not_forgotten BEFORE DELETE ON reports
BEGIN SELECT raise(ABORT, 'a report is never forgotten'); END;
CREATE TRIGGER caps_stay BEFORE UPDATE OF id, cap ON owners
BEGIN SELECT raise(ABORT, 'a cap is for a lifetime'); END;
CREATE TRIGGER caps_are_not_replaced BEFORE INSERT ON owners
WHEN EXISTS (SELECT 1 FROM owners WHERE id = new.id)
BEGIN SELECT raise(ABORT, 'this owner is there already'); END;
CREATE TRIGGER caps_are_not_forgotten BEFORE DELETE ON owners
BEGIN SELECT raise(ABORT, 'a cap is for a lifetime'); END;
CREATE TRIGGER nothing_is_unspent BEFORE UPDATE OF elsewhere ON owners WHEN new.elsewhere < old.elsewhere
BEGIN SELECT raise(ABORT, 'what was spent stays spent'); END;
