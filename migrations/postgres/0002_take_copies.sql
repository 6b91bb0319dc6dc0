-- +goose Up
SET LOCAL ROLE acode_owner;

-- +goose StatementBegin
-- take_copied checks what ingest checks and moves the mark, in the statement that copied the
-- rows in. It only refuses: a delivery is contiguous events of one session, the first of which
-- follows the mark and alone says after what. What is a repeat, a gap or a fork is for ingest
-- to judge. As no two rows have one seq, count and bounds show that none is missing; the order
-- of epochs is looked at only where there is more than one.
CREATE FUNCTION acode.take_copied() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, acode, pg_temp AS $$
DECLARE
    one record;
    h   heads%ROWTYPE;
    x   record;
BEGIN
    PERFORM be_durable();
    SELECT c.session_id, c.device INTO one FROM copied c LIMIT 1;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    h := lock_head(one.session_id, one.device, true);
    SELECT count(*) AS n, min(c.seq) AS first, max(c.seq) AS last, min(c.epoch) AS low, max(c.epoch) AS high,
        bool_and(c.session_id = one.session_id AND c.device = one.device) AS same,
        count(c.prev) = 1 AND min(c.seq) FILTER (WHERE c.prev IS NOT NULL) = h.last_seq + 1 AS led,
        bool_and(c.prev = h.head) AS linked
    INTO x FROM copied c;
    IF NOT x.same OR NOT x.led OR x.first <> h.last_seq + 1 OR x.last <> h.last_seq + x.n THEN
        RAISE EXCEPTION 'the copied events do not follow the mark %', h.last_seq USING ERRCODE = 'AC002';
    ELSIF NOT x.linked OR x.low < h.epoch THEN
        RAISE EXCEPTION 'the copied events are of another chain' USING ERRCODE = 'AC003';
    ELSIF x.high > h.epoch THEN
        PERFORM check_epochs(h.epoch, array_agg(c.type ORDER BY c.seq), array_agg(c.epoch ORDER BY c.seq)) FROM copied c;
    END IF;
    PERFORM extend(h, one.device, x.last, x.high, c.hash) FROM copied c WHERE c.seq = x.last;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- ingest inserts as the owner, and has checked.
CREATE TRIGGER take_copied AFTER INSERT ON acode.events REFERENCING NEW TABLE AS copied
    FOR EACH STATEMENT WHEN (current_user <> 'acode_owner') EXECUTE FUNCTION acode.take_copied();

REVOKE ALL ON FUNCTION acode.take_copied() FROM PUBLIC;
GRANT INSERT (session_id, seq, id, time_us, epoch, type, actor, device, prev, hash, payload) ON acode.events TO acode_writer;

UPDATE acode.meta SET schema_version = 2;
RESET ROLE;
