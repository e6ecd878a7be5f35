-- Schema 4: which users are persons and which are made up, and how many users each limited enrolment token has let in.
-- The migration goes on in askance_server.ledger.sqlite.seals, which seals the new tables.

CREATE TABLE kinds (
    first_user INTEGER PRIMARY KEY CHECK (first_user >= 0), -- the first of a run of users of one kind, up to the next run
    kind TEXT NOT NULL CHECK (kind IN ('real', 'simulated', 'unknown')) -- unknown also: users before the first run
);

CREATE TABLE tickets (
    id TEXT PRIMARY KEY CHECK (length(id) = 32),            -- of a token that was used; it says the number itself
    users INTEGER NOT NULL CHECK (users > 0),               -- number of users that it may let in
    used INTEGER NOT NULL CHECK (used BETWEEN 1 AND users)  -- number of users that it has let in
);
