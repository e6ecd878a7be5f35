-- Schema 4: which users are persons and which are made up, and how many users each limited enrolment token has let in.
-- Who enrols users writes here as well: programs that do not know these tables enrol nobody (`refuse_older_programs`).

CREATE TABLE kinds (
    first_user bigint PRIMARY KEY CHECK (first_user >= 0 AND first_user < 281474976710656),
    kind       text   NOT NULL CHECK (kind IN ('real', 'simulated', 'unknown'))
);
COMMENT ON TABLE  kinds            IS 'The kind of each user, as runs of numbers. Users before the first run are of unknown kind.';
COMMENT ON COLUMN kinds.first_user IS 'The first user of a run, which goes up to the next one.';
COMMENT ON COLUMN kinds.kind       IS 'Whether these users are persons, are made up, or nobody has said.';


CREATE TABLE tickets (
    id    text   PRIMARY KEY CHECK (id ~ '^[0-9a-f]{32}$'),
    users bigint NOT NULL CHECK (users > 0),
    used  bigint NOT NULL,
    CONSTRAINT used_within_number CHECK (used >= 1 AND used <= users)
);
COMMENT ON TABLE  tickets       IS 'Enrolment tokens of limited number that were used. Written in the commit of the users.';
COMMENT ON COLUMN tickets.id    IS 'The id that the token carries.';
COMMENT ON COLUMN tickets.users IS 'Number of users that it may let in, which the token says as well.';
COMMENT ON COLUMN tickets.used  IS 'Number of users that it has let in.';


CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON kinds EXECUTE FUNCTION refuse_to_rewrite();
CREATE TRIGGER no_older_programs BEFORE INSERT ON kinds EXECUTE FUNCTION refuse_older_programs();
CREATE TRIGGER no_older_programs BEFORE INSERT OR UPDATE ON tickets EXECUTE FUNCTION refuse_older_programs();
