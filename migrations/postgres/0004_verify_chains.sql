-- +goose Up
SET LOCAL ROLE acode_owner;

-- +goose StatementBegin
-- check_chain recomputes the hashes of a session's events above p_after, whose hash was p_prev,
-- up to p_to. It gives how many there are, the hash at p_to and the first place where
-- something is wrong: missing, duplicate or changed. What a client withheld keeps the hash of
-- what it was, which cannot be recomputed.
CREATE FUNCTION acode.check_chain(p_session uuid, p_after bigint, p_prev bytea, p_to bigint,
    OUT n bigint, OUT last_hash bytea, OUT bad bigint, OUT wrong text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, acode, pg_temp AS $$
DECLARE
    x record;
BEGIN
    SELECT count(*), min(c.expected) FILTER (WHERE c.seq <> c.expected OR c.differs)
    INTO n, bad
    FROM (
        SELECT e.seq, p_after + row_number() OVER w AS expected,
            e.hash <> chain_hash(lag(e.hash, 1, p_prev) OVER w, e.id, e.session_id, e.seq, e.time_us, e.epoch, e.type, e.actor, e.payload)
            AND substr(e.payload, 1, 12) <> '{"withheld":'::bytea AS differs
        FROM events e WHERE e.session_id = p_session AND e.seq > p_after AND e.seq <= p_to
        WINDOW w AS (ORDER BY e.seq)) c;
    IF bad IS NULL AND n < p_to - p_after THEN
        bad := p_after + n + 1;
    END IF;
    IF bad IS NOT NULL THEN
        SELECT count(*) FILTER (WHERE e.seq = bad) AS here, count(*) FILTER (WHERE e.seq = bad - 1) AS before INTO x
        FROM events e WHERE e.session_id = p_session AND e.seq IN (bad - 1, bad);
        wrong := CASE WHEN x.before > 1 THEN 'duplicate' WHEN x.here = 0 THEN 'missing' ELSE 'changed' END;
        bad := CASE WHEN wrong = 'duplicate' THEN bad - 1 ELSE bad END;
    END IF;
    IF p_to > p_after THEN
        SELECT e.hash INTO last_hash FROM events e WHERE e.session_id = p_session AND e.seq = p_to LIMIT 1;
    ELSE
        last_hash := p_prev;
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- check_session compares all that is kept of a session with its head: wrong is null where
-- nothing is.
CREATE FUNCTION acode.check_session(h acode.heads, OUT n bigint, OUT bad bigint, OUT wrong text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, acode, pg_temp AS $$
DECLARE
    c record;
BEGIN
    SELECT * INTO c FROM check_chain(h.session_id, h.first_seq - 1, h.first_prev, h.last_seq);
    n := c.n;
    bad := c.bad;
    wrong := c.wrong;
    IF wrong IS NULL AND c.last_hash IS DISTINCT FROM h.head THEN
        bad := h.last_seq;
        wrong := 'head';
    END IF;
    IF wrong IS NULL THEN
        SELECT min(e.seq) INTO bad FROM events e WHERE e.session_id = h.session_id AND (e.seq < h.first_seq OR e.seq > h.last_seq);
        wrong := CASE WHEN bad IS NOT NULL THEN 'stray' END;
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- verify_chains recomputes the hashes of at most p_limit of the caller's events that were
-- delivered since the last time, moves the verified marks, and says whether there is more. A
-- chain that is wrong is noted and left. Months are made here too: the caller has time.
CREATE FUNCTION acode.verify_chains(p_limit integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
DECLARE
    h       heads%ROWTYPE;
    c       record;
    upto    bigint;
    open_to bigint := greatest(p_limit, 1);
BEGIN
    IF to_regclass('acode.events_' || to_char((now() AT TIME ZONE 'UTC') + interval '6 months', 'YYYY_MM')) IS NULL THEN
        PERFORM maintain();
    END IF;
    FOR h IN SELECT * FROM heads o WHERE o.owner = session_user AND o.verified_seq < o.last_seq AND o.broken_seq IS NULL
        ORDER BY o.session_id LIMIT 100 LOOP
        EXIT WHEN open_to <= 0;
        upto := least(h.last_seq, h.verified_seq + open_to);
        SELECT * INTO c FROM check_chain(h.session_id, h.verified_seq, h.verified_head, upto);
        UPDATE heads u SET
            verified_seq = CASE WHEN c.bad IS NULL THEN upto ELSE u.verified_seq END,
            verified_head = CASE WHEN c.bad IS NULL THEN c.last_hash ELSE u.verified_head END,
            broken_seq = c.bad
        WHERE u.session_id = h.session_id AND u.verified_seq = h.verified_seq;
        open_to := open_to - (upto - h.verified_seq);
    END LOOP;
    RETURN EXISTS (SELECT 1 FROM heads o WHERE o.owner = session_user AND o.verified_seq < o.last_seq AND o.broken_seq IS NULL);
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- prune_month drops the events that were received in a month. The chains begin above them from
-- then on, after the hash that is kept. A month with events that were never verified, or that
-- is not over, stays.
CREATE FUNCTION acode.prune_month(p_month date) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, acode, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    name text := 'events_' || to_char(p_month, 'YYYY_MM');
    busy boolean;
BEGIN
    IF p_month >= date_trunc('month', now() AT TIME ZONE 'UTC')::date THEN
        RAISE EXCEPTION 'the month % is not over', p_month USING ERRCODE = 'AC006';
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT 1 FROM acode.%I e JOIN acode.heads h USING (session_id)
        WHERE e.seq > h.verified_seq OR e.seq > h.projected_seq)', name) INTO busy;
    IF busy THEN
        RAISE EXCEPTION 'the month % has events that are not verified and projected yet', p_month USING ERRCODE = 'AC006';
    END IF;
    EXECUTE format('UPDATE acode.heads h SET first_seq = m.seq + 1, first_prev = m.hash
        FROM (SELECT DISTINCT ON (e.session_id) e.session_id, e.seq, e.hash FROM acode.%I e ORDER BY e.session_id, e.seq DESC) m
        WHERE h.session_id = m.session_id AND h.first_seq <= m.seq', name);
    EXECUTE format('DROP TABLE acode.%I', name);
END
$$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION acode.check_chain(uuid, bigint, bytea, bigint), acode.check_session(acode.heads),
    acode.verify_chains(integer), acode.prune_month(date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION acode.verify_chains(integer) TO acode_writer;

UPDATE acode.meta SET schema_version = 4;
RESET ROLE;
