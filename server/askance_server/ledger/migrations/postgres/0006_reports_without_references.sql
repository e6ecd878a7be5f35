-- Schema 6: that a report's user and round are there is looked at once for each statement, and not once for each row: that
-- took two thirds of the time of a batch, and all replicas marked the one row of the round. So rows of users and rounds
-- are never deleted, and this is refused as well.
-- The names of these constraints are those that PostgreSQL gave them.
ALTER TABLE reports DROP CONSTRAINT reports_user_number_fkey, DROP CONSTRAINT reports_round_fkey;
COMMENT ON COLUMN reports.user_number IS 'Whose report it is: users.number.';

CREATE FUNCTION refuse_strays() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    answered integer;
BEGIN
    -- Numbers of users have no gaps.
    IF EXISTS (
        SELECT FROM came WHERE user_number NOT BETWEEN 0 AND (SELECT coalesce(max(number), -1) FROM users)
    ) THEN
        RAISE 'a report is of a user who is not there' USING ERRCODE = 'foreign_key_violation';
    END IF;
    FOR answered IN SELECT DISTINCT round FROM came LOOP
        PERFORM FROM rounds WHERE key = answered;
        IF NOT FOUND THEN
            RAISE 'a report is to a round that is not there' USING ERRCODE = 'foreign_key_violation';
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION refuse_strays() IS 'Keeps out reports of users, and to rounds, that are not there.';
CREATE TRIGGER no_strays AFTER INSERT ON reports
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION refuse_strays();

CREATE FUNCTION refuse_to_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never deleted', TG_TABLE_NAME;
END $$;
COMMENT ON FUNCTION refuse_to_delete() IS 'Keeps what reports refer to, against accidents.';
CREATE TRIGGER never_deleted BEFORE DELETE OR TRUNCATE ON users EXECUTE FUNCTION refuse_to_delete();
CREATE TRIGGER never_deleted BEFORE DELETE OR TRUNCATE ON rounds EXECUTE FUNCTION refuse_to_delete();
