-- The tables and triggers of a wallet file, version 2. The application id and the version are set by layout.py.
-- A text in raise(ABORT, ...) is an identifier of the file format: files that exist hold it in their triggers, and
-- errors.py compares it. So none is ever reworded. A file is refused whose tables and triggers are not these, comments
-- and spaces apart (layout.py).
-- Each row carries a checksum (tables.py), and each count says how many rows there are elsewhere: so a bit that has
-- flipped and a row that is gone are noticed when they are read.

CREATE TABLE file (
    one INTEGER PRIMARY KEY CHECK (one = 1),                  -- there is one row
    id BLOB NOT NULL CHECK (length(id) = 16),                 -- random; all checksums depend on it: no row of another file passes
    owner_count INTEGER NOT NULL CHECK (owner_count >= 0),    -- number of rows of owners
    head_count INTEGER NOT NULL CHECK (head_count >= 0),      -- number of rows of heads
    checksum BLOB NOT NULL CHECK (length(checksum) = 16)
);
CREATE TABLE owners (
    id INTEGER PRIMARY KEY,                                   -- whose wallet this is; 0 where there is one
    cap INTEGER NOT NULL CHECK (cap > 0),                     -- what she will ever spend, in micro-epsilon
    elsewhere INTEGER NOT NULL CHECK (elsewhere >= 0),        -- spent by other copies of this wallet
    server TEXT,                                              -- the server that knows her, or was asked for a number
    user_number INTEGER CHECK (user_number >= 0),             -- her number there
    token TEXT,                                               -- proves it; without a number, the key that asks for it
    declared TEXT,                                            -- the fields that she has, as she declared them
    report_count INTEGER NOT NULL CHECK (report_count >= 0),  -- number of her rows of reports
    heard_count INTEGER NOT NULL CHECK (heard_count >= 0),    -- number of her rows of heard
    checksum BLOB NOT NULL CHECK (length(checksum) = 16)
);
CREATE TABLE heads (                                          -- what was read of bulletins; public, so for all owners
    study TEXT NOT NULL CHECK (length(study) = 64),           -- digest of the study
    length INTEGER NOT NULL CHECK (length > 0),               -- after this number of entries
    head TEXT NOT NULL CHECK (length(head) = 64),             -- this was the digest of the last of them
    checksum BLOB NOT NULL CHECK (length(checksum) = 16),
    PRIMARY KEY (study, length)
) WITHOUT ROWID;
CREATE TABLE reports (
    owner INTEGER NOT NULL REFERENCES owners (id),
    round TEXT NOT NULL CHECK (length(round) = 64),           -- digest of the round
    study TEXT CHECK (length(study) = 64),                    -- digest of its study; version 1 did not note it
    charge INTEGER NOT NULL CHECK (charge > 0),               -- what it cost, in micro-epsilon
    body BLOB NOT NULL,                                       -- what is sent, and sent again
    state TEXT NOT NULL                                       -- see ReportState
        CHECK (state IN ('kept', 'acknowledged', 'declined', 'conflict')),
    checksum BLOB NOT NULL CHECK (length(checksum) = 16),
    PRIMARY KEY (owner, round)
) WITHOUT ROWID;
CREATE TABLE heard (
    owner INTEGER NOT NULL REFERENCES owners (id),
    round TEXT NOT NULL CHECK (length(round) = 64),           -- digest of a round that a copy has answered
    charge INTEGER NOT NULL CHECK (charge >= 0),              -- what it cost, as the server said
    checksum BLOB NOT NULL CHECK (length(checksum) = 16),
    PRIMARY KEY (owner, round)
) WITHOUT ROWID;
-- A conflict is two draws that were seen: this wallet's, and the one that the server has taken. Both are charged.
CREATE TRIGGER within_the_cap BEFORE INSERT ON reports
WHEN new.charge + (SELECT coalesce(sum(charge * (1 + (state = 'conflict'))), 0) FROM reports WHERE owner = new.owner)
    > (SELECT cap - elsewhere FROM owners WHERE id = new.owner)
BEGIN SELECT raise(ABORT, 'beyond the cap'); END;
CREATE TRIGGER reports_stay BEFORE UPDATE OF owner, round, study, charge, body ON reports
BEGIN SELECT raise(ABORT, 'a report is never changed'); END;
-- REPLACE deletes without asking the triggers of a deletion.
CREATE TRIGGER reports_are_not_replaced BEFORE INSERT ON reports
WHEN EXISTS (SELECT 1 FROM reports WHERE owner = new.owner AND round = new.round)
BEGIN SELECT raise(ABORT, 'a report is never changed'); END;
CREATE TRIGGER reports_are_not_forgotten BEFORE DELETE ON reports
BEGIN SELECT raise(ABORT, 'a report is never forgotten'); END;
CREATE TRIGGER conflicts_stay BEFORE UPDATE OF state ON reports WHEN old.state = 'conflict' AND new.state <> 'conflict'
BEGIN SELECT raise(ABORT, 'what was spent stays spent'); END;
CREATE TRIGGER caps_stay BEFORE UPDATE OF id, cap ON owners
BEGIN SELECT raise(ABORT, 'a cap is for a lifetime'); END;
CREATE TRIGGER caps_are_not_replaced BEFORE INSERT ON owners
WHEN EXISTS (SELECT 1 FROM owners WHERE id = new.id)
BEGIN SELECT raise(ABORT, 'this owner is there already'); END;
CREATE TRIGGER caps_are_not_forgotten BEFORE DELETE ON owners
BEGIN SELECT raise(ABORT, 'a cap is for a lifetime'); END;
CREATE TRIGGER nothing_is_unspent BEFORE UPDATE OF elsewhere, report_count, heard_count ON owners
WHEN new.elsewhere < old.elsewhere OR new.report_count < old.report_count OR new.heard_count < old.heard_count
BEGIN SELECT raise(ABORT, 'what was spent stays spent'); END;
CREATE TRIGGER heads_stay BEFORE UPDATE ON heads
BEGIN SELECT raise(ABORT, 'what was read stays read'); END;
CREATE TRIGGER heads_are_not_replaced BEFORE INSERT ON heads
WHEN EXISTS (SELECT 1 FROM heads WHERE study = new.study AND length = new.length)
BEGIN SELECT raise(ABORT, 'what was read stays read'); END;
CREATE TRIGGER heads_are_not_forgotten BEFORE DELETE ON heads
BEGIN SELECT raise(ABORT, 'what was read stays read'); END;
