-- +goose Up
SET LOCAL ROLE acode_owner;

-- +goose StatementBegin
-- ingest takes a delivery: contiguous events of one session from p_first on, the first of
-- which follows p_prev. What is there already is compared and passed over, what is new extends
-- the chain, what differs is filed as a fork, and so is what follows that. No events asks for
-- the mark.
--
-- New events are unnested column by column, in step: as a row source the arrays would be copied
-- once more before the first row is inserted. The rows that the trigger of COPY could look at are
-- collected here too, in memory where that is allowed. The order of epochs is looked at only
-- where there is more than one.
CREATE OR REPLACE FUNCTION acode.ingest(p_session uuid, p_device text, p_first bigint, p_prev bytea, p_ids uuid[], p_times bigint[],
    p_types text[], p_actors text[], p_epochs bigint[], p_hashes bytea[], p_payloads bytea[])
RETURNS TABLE (seq bigint, head bytea, epoch bigint, verified bigint, verdict text, inserted integer, duplicate integer,
    server_us bigint, retry_after_ms integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp SET work_mem = '16MB' AS $$
#variable_conflict use_column
DECLARE
    n      integer := coalesce(cardinality(p_ids), 0);
    h      heads%ROWTYPE;
    known  integer := 0; -- how many of them lie at or below the mark
    bad    integer;      -- the first that is not the server's, from 1
    beyond boolean;      -- it begins above the mark: a gap, or more of what was filed
BEGIN
    PERFORM be_durable();
    IF coalesce(p_first, 0) < 1 OR octet_length(p_prev) IS DISTINCT FROM 32 OR p_session IS NULL OR p_device IS NULL
        OR (n, n, n, n, n, n) IS DISTINCT FROM (cardinality(p_times), cardinality(p_types), cardinality(p_actors),
            cardinality(p_epochs), cardinality(p_hashes), cardinality(p_payloads)) THEN
        RAISE EXCEPTION 'the delivery is malformed' USING ERRCODE = 'AC004';
    END IF;
    verdict := 'ok';
    inserted := 0;
    duplicate := 0;
    h := lock_head(p_session, p_device, n > 0 AND p_first = 1);
    beyond := p_first > coalesce(h.last_seq, 0) + 1;
    IF n > 0 AND beyond AND NOT EXISTS (SELECT 1 FROM forks f WHERE f.session_id = p_session AND f.hash = p_prev AND f.seq = p_first - 1) THEN
        verdict := 'gap';
    ELSIF n > 0 THEN
        known := least(n, greatest(0, h.last_seq - p_first + 1));
        bad := CASE WHEN beyond THEN 1 ELSE first_difference(h, p_first, p_prev, p_hashes, p_epochs, known) END;
        IF bad IS NULL THEN
            duplicate := known;
            inserted := n - known;
            IF known > 0 THEN
                p_ids := p_ids[known + 1:];
                p_times := p_times[known + 1:];
                p_types := p_types[known + 1:];
                p_actors := p_actors[known + 1:];
                p_epochs := p_epochs[known + 1:];
                p_hashes := p_hashes[known + 1:];
                p_payloads := p_payloads[known + 1:];
            END IF;
            IF inserted > 0 THEN
                IF EXISTS (SELECT FROM unnest(p_epochs) AS u (epoch) WHERE u.epoch <> h.epoch) THEN
                    PERFORM check_epochs(h.epoch, p_types, p_epochs);
                END IF;
                INSERT INTO events (session_id, seq, id, time_us, type, actor, epoch, device, hash, payload)
                SELECT p_session, generate_series(p_first + known, p_first + n - 1), unnest(p_ids), unnest(p_times), unnest(p_types),
                    unnest(p_actors), unnest(p_epochs), p_device, unnest(p_hashes), unnest(p_payloads);
                PERFORM extend(h, p_device, p_first + n - 1, p_epochs[inserted], p_hashes[inserted]);
                SELECT * INTO h FROM heads WHERE session_id = p_session;
            END IF;
        ELSE
            verdict := CASE WHEN p_epochs[n] < h.epoch THEN 'fenced' ELSE 'forked' END;
            duplicate := least(known, bad - 1);
            INSERT INTO forks (session_id, seq, reason, owner, id, time_us, epoch, type, actor, device, prev, hash, payload)
            SELECT p_session, p_first + u.o - 1, verdict, session_user, u.id, u.time_us, u.epoch, u.type, u.actor, p_device,
                coalesce(p_hashes[u.o - 1], p_prev), u.hash, u.payload
            FROM unnest(p_ids, p_times, p_types, p_actors, p_epochs, p_hashes, p_payloads)
                WITH ORDINALITY AS u (id, time_us, type, actor, epoch, hash, payload, o)
            WHERE u.o >= bad
            ON CONFLICT (session_id, hash) DO NOTHING;
        END IF;
    END IF;
    seq := coalesce(h.last_seq, 0);
    head := coalesce(h.head, zero_hash());
    epoch := coalesce(h.epoch, 0);
    verified := coalesce(h.verified_seq, 0);
    server_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    SELECT m.retry_after_ms INTO retry_after_ms FROM meta m;
    RETURN NEXT;
END
$$;
-- +goose StatementEnd

UPDATE acode.meta SET schema_version = 6;
RESET ROLE;
