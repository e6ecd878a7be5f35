-- Schema 5: in which order the reports of a live round were accepted: its counts are told in steps of that order.
-- The log of reports has no order, and a number drawn before a commit would have another one than the commits.

CREATE TABLE arrivals (
    round integer NOT NULL REFERENCES rounds,
    place bigint  NOT NULL CHECK (place >= 0),
    users bytea   NOT NULL CHECK (octet_length(users) > 0 AND octet_length(users) % 8 = 0),
    PRIMARY KEY (round, place)
);
COMMENT ON TABLE  arrivals       IS 'The groups of reports of each live round, in the order of their commits. Append-only.';
COMMENT ON COLUMN arrivals.round IS 'The round: rounds.key.';
COMMENT ON COLUMN arrivals.place IS 'Number of its reports that were accepted before this group.';
COMMENT ON COLUMN arrivals.users IS 'The users whose reports the group had, 8 bytes each, little-endian, in their order.';


CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON arrivals EXECUTE FUNCTION refuse_to_rewrite();
CREATE TRIGGER no_older_programs BEFORE INSERT ON arrivals EXECUTE FUNCTION refuse_older_programs();
