-- Schema 3: a seal over each table, so that what anything but the ledger's own programs has changed is found.
-- The migration goes on in askance_server.ledger.postgres.opening, which seals the rows that there are.

-- Whoever is writing comes to an end first, and nobody begins: reports begin with users, entries with studies.
LOCK TABLE users, studies, entries, rounds, reports, received, server_key, schema_version IN EXCLUSIVE MODE;


CREATE TABLE seals (
    name  text        NOT NULL,
    shard smallint    NOT NULL CHECK (shard >= 0),
    rows  bigint      NOT NULL DEFAULT 0,
    sum   numeric(20) NOT NULL DEFAULT 0 CHECK (sum >= 0 AND sum < 18446744073709551616),
    PRIMARY KEY (name, shard)
) WITH (fillfactor = 10);
COMMENT ON TABLE  seals       IS 'What each table holds, in numbers that only the ledger''s programs keep in step with it.';
COMMENT ON COLUMN seals.name  IS 'The table that is sealed; `structure` stands for the tables themselves.';
COMMENT ON COLUMN seals.shard IS 'Which part of the seal. Several, so that replicas rarely wait for each other''s commit here.';
COMMENT ON COLUMN seals.rows  IS 'Rows that have come here, less those that have gone; over all shards, the rows of the table.';
COMMENT ON COLUMN seals.sum   IS 'The sum modulo 2^64 of digests of rows that have come, less those that have gone.';


ALTER TABLE received ADD COLUMN seal numeric(20) NOT NULL DEFAULT 0 CHECK (seal >= 0 AND seal < 18446744073709551616);
COMMENT ON COLUMN received.seal IS 'The sum modulo 2^64 of digests of the reports that were counted here.';


-- A program of an older schema would write rows and no seal: from here on it writes nothing. The function is made by
-- askance_server.ledger.postgres.opening, because the newest schema stands in it, whichever that is.
CREATE TRIGGER no_older_programs BEFORE INSERT OR UPDATE OF number, cap, epoch ON users EXECUTE FUNCTION refuse_older_programs();
CREATE TRIGGER no_older_programs BEFORE INSERT ON studies EXECUTE FUNCTION refuse_older_programs();
CREATE TRIGGER no_older_programs BEFORE INSERT ON entries EXECUTE FUNCTION refuse_older_programs();
CREATE TRIGGER no_older_programs BEFORE INSERT ON rounds EXECUTE FUNCTION refuse_older_programs();
CREATE TRIGGER no_older_programs BEFORE INSERT ON reports EXECUTE FUNCTION refuse_older_programs();
CREATE TRIGGER no_older_programs BEFORE INSERT OR UPDATE ON server_key EXECUTE FUNCTION refuse_older_programs();
