-- Schema 1: users and their budgets, bulletins, rounds, and the log of accepted reports.
--
-- What can be said about one row, or about one user and one round, is said here as a constraint, so that not even a
-- faulty program can break it. What needs sums or digests over several tables, `PostgresLedger.verify` recomputes.

CREATE TABLE schema_version (
    version integer     PRIMARY KEY CHECK (version >= 1),
    applied timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE  schema_version         IS 'The migrations that this database has had: a row each.';
COMMENT ON COLUMN schema_version.version IS 'The number with which the name of the migration''s file begins.';
COMMENT ON COLUMN schema_version.applied IS 'When it was applied. For people; nothing reads it.';


CREATE TABLE users (
    number bigint  PRIMARY KEY CHECK (number >= 0 AND number < 281474976710656),
    cap    bigint  NOT NULL CHECK (cap >= 0 AND cap <= 1000000000000000),
    spent  bigint  NOT NULL DEFAULT 0,
    epoch  integer NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    CONSTRAINT spent_within_cap CHECK (spent >= 0 AND spent <= cap)
-- Half of each page stays free: a charge writes each row anew, and finds room for it on the same page, so that the
-- index is left alone (a heap-only update).
) WITH (fillfactor = 50);
COMMENT ON TABLE  users        IS 'Who is enrolled, and each user''s account. Rows are never deleted.';
COMMENT ON COLUMN users.number IS 'User numbers are 0, 1, 2, … without gaps, in the order of enrolment, below 2^48.';
COMMENT ON COLUMN users.cap    IS 'Micro-ε that this user may spend over her lifetime. Never renewed.';
COMMENT ON COLUMN users.spent  IS 'Micro-ε spent: the sum of the charges of her reports. Written in the commit of the report.';
COMMENT ON COLUMN users.epoch  IS 'The epoch that her tokens must carry; revoking them counts it up.';


CREATE TABLE studies (
    id      text    PRIMARY KEY CHECK (id ~ '^[0-9a-f]{64}$'),
    ordinal bigint  GENERATED ALWAYS AS IDENTITY UNIQUE,
    head    text    NOT NULL CHECK (head ~ '^[0-9a-f]{64}$'),
    length  integer NOT NULL CHECK (length >= 0),
    state   text    NOT NULL CHECK (state IN ('created', 'running', 'sealed', 'finished', 'failed', 'cancelled'))
);
COMMENT ON TABLE  studies         IS 'Where each study stands after its last entry. Whoever appends locks the row.';
COMMENT ON COLUMN studies.id      IS 'Digest of the study''s canonical form.';
COMMENT ON COLUMN studies.ordinal IS 'Grows with each study: the order in which they are listed.';
COMMENT ON COLUMN studies.head    IS 'Digest of the last entry; the next one has to carry it.';
COMMENT ON COLUMN studies.length  IS 'How many entries there are: the sequence of the next one.';
COMMENT ON COLUMN studies.state   IS 'The study''s state, by the table in askance_protocol.rounds.lifecycle.';


CREATE TABLE entries (
    study    text    NOT NULL REFERENCES studies,
    sequence integer NOT NULL CHECK (sequence >= 0),
    digest   text    NOT NULL UNIQUE,
    body     bytea   NOT NULL,
    PRIMARY KEY (study, sequence),
    CONSTRAINT digest_of_body CHECK (digest = encode(sha256(body), 'hex'))
);
COMMENT ON TABLE  entries          IS 'The bulletins: append-only lists, each entry carrying the digest of the one before.';
COMMENT ON COLUMN entries.study    IS 'Whose bulletin this is an entry of.';
COMMENT ON COLUMN entries.sequence IS 'The entry''s place in the list: 0, 1, 2, … without gaps.';
COMMENT ON COLUMN entries.digest   IS 'SHA-256 of the canonical form, as the next entry carries it.';
COMMENT ON COLUMN entries.body     IS 'The canonical form, byte by byte: what the digest is of.';


CREATE TABLE rounds (
    key    integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id     text    NOT NULL UNIQUE CHECK (id ~ '^[0-9a-f]{64}$'),
    study  text    NOT NULL,
    entry  integer NOT NULL,
    number integer NOT NULL CHECK (number >= 1),
    state  text    NOT NULL CHECK (state IN ('published', 'open', 'closed', 'answered', 'abandoned')),
    UNIQUE (study, number),
    FOREIGN KEY (study, entry) REFERENCES entries (study, sequence)
);
COMMENT ON TABLE  rounds        IS 'Where each published round stands.';
COMMENT ON COLUMN rounds.key    IS 'Names the round in the log of reports, and its advisory lock, in 4 bytes instead of 64.';
COMMENT ON COLUMN rounds.id     IS 'Digest of the round''s canonical form.';
COMMENT ON COLUMN rounds.study  IS 'The study that published it.';
COMMENT ON COLUMN rounds.entry  IS 'The entry of the study''s bulletin that published it: there is its specification.';
COMMENT ON COLUMN rounds.number IS 'The round''s number within its study: 1, 2, 3, …';
COMMENT ON COLUMN rounds.state  IS 'The round''s state, by the table in askance_protocol.rounds.lifecycle. Reports count while open.';


CREATE TABLE reports (
    user_number bigint  NOT NULL REFERENCES users,
    round       integer NOT NULL REFERENCES rounds,
    outcome     integer NOT NULL CHECK (outcome >= 0),
    PRIMARY KEY (round, user_number)
);
COMMENT ON TABLE  reports             IS 'The log: every accepted report, one a user and round. Append-only.';
COMMENT ON COLUMN reports.user_number IS 'Whose report it is.';
COMMENT ON COLUMN reports.round       IS 'The round that it answers: rounds.key.';
COMMENT ON COLUMN reports.outcome     IS 'Index of the outcome of her part''s channel: the randomized answer, as it arrived.';


CREATE TABLE received (
    round   integer  NOT NULL REFERENCES rounds,
    shard   smallint NOT NULL CHECK (shard >= 0),
    reports bigint   NOT NULL DEFAULT 0 CHECK (reports >= 0),
    PRIMARY KEY (round, shard)
) WITH (fillfactor = 10);
COMMENT ON TABLE  received         IS 'How many reports a round has: the sum over its shards, counted in the commit of the reports.';
COMMENT ON COLUMN received.round   IS 'The round: rounds.key.';
COMMENT ON COLUMN received.shard   IS 'Which part of the count. Several, so that replicas rarely wait for each other''s commit here.';
COMMENT ON COLUMN received.reports IS 'Reports that were counted here.';


CREATE FUNCTION refuse_to_rewrite() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;
COMMENT ON FUNCTION refuse_to_rewrite() IS 'Keeps logs append-only, against accidents.';
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON entries EXECUTE FUNCTION refuse_to_rewrite();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON reports EXECUTE FUNCTION refuse_to_rewrite();
