--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: acode; Type: SCHEMA; Schema: -; Owner: acode_owner
--

CREATE SCHEMA acode;


ALTER SCHEMA acode OWNER TO acode_owner;

--
-- Name: acode_views; Type: SCHEMA; Schema: -; Owner: acode_owner
--

CREATE SCHEMA acode_views;


ALTER SCHEMA acode_views OWNER TO acode_owner;

--
-- Name: content; Type: TYPE; Schema: acode; Owner: acode_owner
--

CREATE TYPE acode.content AS (
	j jsonb,
	flag text
);


ALTER TYPE acode.content OWNER TO acode_owner;

--
-- Name: as_name(text); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.as_name(t text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN "left"(COALESCE(t, ''::text), 64);


ALTER FUNCTION acode.as_name(t text) OWNER TO acode_owner;

--
-- Name: as_number(text); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.as_number(t text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (t ~ '^-?[0-9]{1,18}$'::text) THEN (t)::bigint ELSE NULL::bigint END;


ALTER FUNCTION acode.as_number(t text) OWNER TO acode_owner;

--
-- Name: be_durable(); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.be_durable() RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF pg_catalog.current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM pg_catalog.set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;


ALTER FUNCTION acode.be_durable() OWNER TO acode_owner;

--
-- Name: blob_sums(bytea); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.blob_sums(p_hash bytea) RETURNS TABLE(n integer, sum bytea)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
    SELECT c.n, c.sum FROM blob_chunks c WHERE c.owner = session_user AND c.hash = p_hash ORDER BY c.n
$$;


ALTER FUNCTION acode.blob_sums(p_hash bytea) OWNER TO acode_owner;

--
-- Name: chain_hash(bytea, uuid, uuid, bigint, bigint, bigint, text, text, bytea); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.chain_hash(p_prev bytea, p_id uuid, p_session uuid, p_seq bigint, p_time_us bigint, p_epoch bigint, p_type text, p_actor text, p_payload bytea) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN sha256(((((((((((((('\x61636f64652d6576656e742d763100'::bytea || p_prev) || uuid_send(p_id)) || int4send(36)) || convert_to((p_session)::text, 'UTF8'::name)) || int8send(p_seq)) || int8send(p_time_us)) || int8send(p_epoch)) || int4send(octet_length(convert_to(p_type, 'UTF8'::name)))) || convert_to(p_type, 'UTF8'::name)) || int4send(octet_length(convert_to(p_actor, 'UTF8'::name)))) || convert_to(p_actor, 'UTF8'::name)) || int4send(octet_length(p_payload))) || p_payload));


ALTER FUNCTION acode.chain_hash(p_prev bytea, p_id uuid, p_session uuid, p_seq bigint, p_time_us bigint, p_epoch bigint, p_type text, p_actor text, p_payload bytea) OWNER TO acode_owner;

--
-- Name: check_chain(uuid, bigint, bytea, bigint); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.check_chain(p_session uuid, p_after bigint, p_prev bytea, p_to bigint, OUT n bigint, OUT last_hash bytea, OUT bad bigint, OUT wrong text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
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


ALTER FUNCTION acode.check_chain(p_session uuid, p_after bigint, p_prev bytea, p_to bigint, OUT n bigint, OUT last_hash bytea, OUT bad bigint, OUT wrong text) OWNER TO acode_owner;

--
-- Name: check_epochs(bigint, text[], bigint[]); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.check_epochs(p_epoch bigint, p_types text[], p_epochs bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM (
            SELECT u.epoch - lag(u.epoch, 1, p_epoch) OVER (ORDER BY u.o) AS rise, u.type
            FROM unnest(p_types, p_epochs) WITH ORDINALITY AS u (type, epoch, o)) x
        WHERE x.rise <> 0 AND NOT (x.rise = 1 AND x.type = 'ExecutionAcquired')) THEN
        RAISE EXCEPTION 'the epochs of the delivery do not follow one another' USING ERRCODE = 'AC004';
    END IF;
END
$$;


ALTER FUNCTION acode.check_epochs(p_epoch bigint, p_types text[], p_epochs bigint[]) OWNER TO acode_owner;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: heads; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.heads (
    session_id uuid NOT NULL,
    owner name NOT NULL,
    device text NOT NULL,
    last_seq bigint NOT NULL,
    epoch bigint NOT NULL,
    head bytea NOT NULL,
    first_seq bigint DEFAULT 1 NOT NULL,
    first_prev bytea NOT NULL,
    verified_seq bigint DEFAULT 0 NOT NULL,
    verified_head bytea NOT NULL,
    broken_seq bigint,
    projected_seq bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT heads_check CHECK (((first_seq >= 1) AND (first_seq <= (last_seq + 1)))),
    CONSTRAINT heads_check1 CHECK (((verified_seq >= 0) AND (verified_seq <= last_seq))),
    CONSTRAINT heads_check2 CHECK (((projected_seq >= 0) AND (projected_seq <= last_seq))),
    CONSTRAINT heads_device_check CHECK (((length(device) >= 1) AND (length(device) <= 200))),
    CONSTRAINT heads_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT heads_first_prev_check CHECK ((octet_length(first_prev) = 32)),
    CONSTRAINT heads_head_check CHECK ((octet_length(head) = 32)),
    CONSTRAINT heads_last_seq_check CHECK ((last_seq >= 0)),
    CONSTRAINT heads_verified_head_check CHECK ((octet_length(verified_head) = 32))
)
WITH (fillfactor='70');


ALTER TABLE acode.heads OWNER TO acode_owner;

--
-- Name: check_session(acode.heads); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.check_session(h acode.heads, OUT n bigint, OUT bad bigint, OUT wrong text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
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


ALTER FUNCTION acode.check_session(h acode.heads, OUT n bigint, OUT bad bigint, OUT wrong text) OWNER TO acode_owner;

--
-- Name: extend(acode.heads, text, bigint, bigint, bytea); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.extend(h acode.heads, p_device text, p_last bigint, p_epoch bigint, p_head bytea) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
DECLARE
    v_shard smallint := hashtext(h.session_id::text) & 15;
BEGIN
    UPDATE heads u SET last_seq = p_last, epoch = p_epoch, head = p_head, device = p_device, updated_at = now()
    WHERE u.session_id = h.session_id;
    IF h.device <> p_device THEN -- it goes on from another store: all of it moves
        UPDATE counts c SET events = c.events - h.last_seq WHERE c.owner = h.owner AND c.device = h.device AND c.shard = v_shard;
        h.last_seq := 0;
    END IF;
    INSERT INTO counts AS c (owner, device, shard, events) VALUES (h.owner, p_device, v_shard, p_last - h.last_seq)
    ON CONFLICT (owner, device, shard) DO UPDATE SET events = c.events + excluded.events;
END
$$;


ALTER FUNCTION acode.extend(h acode.heads, p_device text, p_last bigint, p_epoch bigint, p_head bytea) OWNER TO acode_owner;

--
-- Name: finish_blob(bytea, bigint, integer, bytea); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.finish_blob(p_hash bytea, p_bytes bigint, p_chunks integer, p_sums bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
DECLARE
    x record;
BEGIN
    PERFORM be_durable();
    IF EXISTS (SELECT 1 FROM blobs b WHERE b.owner = session_user AND b.hash = p_hash) THEN
        RETURN;
    END IF;
    DELETE FROM blob_chunks c WHERE c.owner = session_user AND c.hash = p_hash AND c.n >= p_chunks;
    SELECT sha256(string_agg(c.sum, ''::bytea ORDER BY c.n)) AS sums, sum(octet_length(c.data)) AS stored INTO x
    FROM blob_chunks c WHERE c.owner = session_user AND c.hash = p_hash;
    IF x.sums IS DISTINCT FROM p_sums THEN
        RAISE EXCEPTION 'the chunks are not those that were sent' USING ERRCODE = 'AC005';
    END IF;
    INSERT INTO blobs (owner, hash, bytes, chunks, stored) VALUES (session_user, p_hash, p_bytes, p_chunks, x.stored)
    ON CONFLICT DO NOTHING;
END
$$;


ALTER FUNCTION acode.finish_blob(p_hash bytea, p_bytes bigint, p_chunks integer, p_sums bytea) OWNER TO acode_owner;

--
-- Name: first_difference(acode.heads, bigint, bytea, bytea[], bigint[], integer); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.first_difference(h acode.heads, p_first bigint, p_prev bytea, p_hashes bytea[], p_epochs bigint[], p_known integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    bad integer;
BEGIN
    IF p_known > 0 THEN
        SELECT min(e.seq - p_first + 1)::integer INTO bad FROM events e
        WHERE e.session_id = h.session_id AND e.seq BETWEEN p_first AND p_first + p_known - 1
            AND e.hash <> p_hashes[(e.seq - p_first + 1)::integer];
        IF bad IS NULL AND p_first + p_known - 1 = h.last_seq AND p_hashes[p_known] IS DISTINCT FROM h.head THEN
            bad := p_known;
        END IF;
    ELSIF p_prev <> h.head THEN
        bad := 1;
    END IF;
    IF bad IS NULL AND p_epochs[p_known + 1] < h.epoch THEN
        bad := p_known + 1;
    END IF;
    RETURN bad;
END
$$;


ALTER FUNCTION acode.first_difference(h acode.heads, p_first bigint, p_prev bytea, p_hashes bytea[], p_epochs bigint[], p_known integer) OWNER TO acode_owner;

--
-- Name: hello(text); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.hello(p_device text) RETURNS TABLE(system text, database text, schema_version integer, oldest_client integer, server_us bigint, events bigint, read_only boolean)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
    SELECT s.system_identifier::text, current_database()::text, m.schema_version, m.oldest_client,
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
        coalesce((SELECT sum(c.events) FROM counts c WHERE c.owner = session_user AND c.device = p_device), 0)::bigint,
        pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean
    FROM pg_control_system() s, meta m
$$;


ALTER FUNCTION acode.hello(p_device text) OWNER TO acode_owner;

--
-- Name: ingest(uuid, text, bigint, bytea, uuid[], bigint[], text[], text[], bigint[], bytea[], bytea[]); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.ingest(p_session uuid, p_device text, p_first bigint, p_prev bytea, p_ids uuid[], p_times bigint[], p_types text[], p_actors text[], p_epochs bigint[], p_hashes bytea[], p_payloads bytea[]) RETURNS TABLE(seq bigint, head bytea, epoch bigint, verified bigint, verdict text, inserted integer, duplicate integer, server_us bigint, retry_after_ms integer)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
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
            PERFORM check_epochs(h.epoch, p_types[known + 1:], p_epochs[known + 1:]);
            INSERT INTO events (session_id, seq, id, time_us, type, actor, epoch, device, hash, payload)
            SELECT p_session, p_first + u.o - 1, u.id, u.time_us, u.type, u.actor, u.epoch, p_device, u.hash, u.payload
            FROM unnest(p_ids, p_times, p_types, p_actors, p_epochs, p_hashes, p_payloads)
                WITH ORDINALITY AS u (id, time_us, type, actor, epoch, hash, payload, o)
            WHERE u.o > known;
            duplicate := known;
            inserted := n - known;
            IF inserted > 0 THEN
                PERFORM extend(h, p_device, p_first + n - 1, p_epochs[n], p_hashes[n]);
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


ALTER FUNCTION acode.ingest(p_session uuid, p_device text, p_first bigint, p_prev bytea, p_ids uuid[], p_times bigint[], p_types text[], p_actors text[], p_epochs bigint[], p_hashes bytea[], p_payloads bytea[]) OWNER TO acode_owner;

--
-- Name: lock_head(uuid, text, boolean); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.lock_head(p_session uuid, p_device text, p_make boolean) RETURNS acode.heads
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
DECLARE
    h heads%ROWTYPE;
BEGIN
    SELECT * INTO h FROM heads WHERE session_id = p_session FOR UPDATE;
    IF NOT FOUND AND p_make THEN
        INSERT INTO heads (session_id, owner, device, last_seq, epoch, head, first_prev, verified_head)
        VALUES (p_session, session_user, p_device, 0, 0, zero_hash(), zero_hash(), zero_hash())
        ON CONFLICT DO NOTHING;
        SELECT * INTO h FROM heads WHERE session_id = p_session FOR UPDATE;
    END IF;
    IF h.owner <> session_user THEN
        RAISE EXCEPTION 'the session belongs to another device' USING ERRCODE = 'AC001';
    END IF;
    RETURN h;
END
$$;


ALTER FUNCTION acode.lock_head(p_session uuid, p_device text, p_make boolean) OWNER TO acode_owner;

--
-- Name: maintain(); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.maintain() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    SET lock_timeout TO '2s'
    AS $$
DECLARE
    m    date := date_trunc('month', now() AT TIME ZONE 'UTC')::date;
    name text;
    made integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('acode.maintain', 0));
    FOR i IN 0..12 LOOP
        name := 'events_' || to_char(m, 'YYYY_MM');
        IF to_regclass('acode.' || name) IS NULL THEN
            EXECUTE format('CREATE TABLE acode.%I (LIKE acode.events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
            EXECUTE format('ALTER TABLE acode.events ATTACH PARTITION acode.%I FOR VALUES FROM (%L) TO (%L)',
                name, to_char(m, 'YYYY-MM-DD') || ' 00:00+00', to_char(m + interval '1 month', 'YYYY-MM-DD') || ' 00:00+00');
            made := made + 1;
        END IF;
        m := (m + interval '1 month')::date;
    END LOOP;
    RETURN made;
END
$$;


ALTER FUNCTION acode.maintain() OWNER TO acode_owner;

--
-- Name: marks(text, uuid, integer); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.marks(p_device text, p_after uuid, p_limit integer) RETURNS TABLE(session_id uuid, seq bigint, head bytea, epoch bigint, verified bigint)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
    SELECT h.session_id, h.last_seq, h.head, h.epoch, h.verified_seq FROM heads h
    WHERE h.owner = session_user AND h.device = p_device AND h.session_id > p_after
    ORDER BY h.session_id LIMIT least(greatest(p_limit, 1), 10000)
$$;


ALTER FUNCTION acode.marks(p_device text, p_after uuid, p_limit integer) OWNER TO acode_owner;

--
-- Name: missing_blobs(bytea[]); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.missing_blobs(p_hashes bytea[]) RETURNS TABLE(hash bytea)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
    SELECT DISTINCT u.hash FROM unnest(p_hashes) u (hash)
    WHERE NOT EXISTS (SELECT 1 FROM blobs b WHERE b.owner = session_user AND b.hash = u.hash)
$$;


ALTER FUNCTION acode.missing_blobs(p_hashes bytea[]) OWNER TO acode_owner;

--
-- Name: project(integer); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.project(p_limit integer) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
DECLARE
    h       heads%ROWTYPE;
    upto    bigint;
    open_to bigint := greatest(p_limit, 1);
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('acode.project ' || session_user, 0)) THEN
        RETURN false; -- somebody is at it, and the heads stay free for deliveries
    END IF;
    FOR h IN SELECT * FROM heads o WHERE o.owner = session_user AND o.projected_seq < o.last_seq ORDER BY o.session_id LIMIT 100 LOOP
        EXIT WHEN open_to <= 0;
        upto := least(h.last_seq, h.projected_seq + open_to);
        BEGIN
            PERFORM project_events(h, h.projected_seq, upto);
        EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
            FOR s IN h.projected_seq + 1 .. upto LOOP
                BEGIN
                    PERFORM project_events(h, s - 1, s);
                EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
                    INSERT INTO p_flags (session_id, seq, flag) VALUES (h.session_id, s, 'failed ' || SQLSTATE)
                    ON CONFLICT (session_id, seq) DO UPDATE SET flag = excluded.flag;
                END;
            END LOOP;
        END;
        UPDATE heads u SET projected_seq = upto WHERE u.session_id = h.session_id;
        open_to := open_to - (upto - h.projected_seq);
    END LOOP;
    RETURN EXISTS (SELECT 1 FROM heads o WHERE o.owner = session_user AND o.projected_seq < o.last_seq);
END
$$;


ALTER FUNCTION acode.project(p_limit integer) OWNER TO acode_owner;

--
-- Name: project_approval(uuid, record, jsonb); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.project_approval(p_session uuid, e record, j jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
BEGIN
    IF e.type = 'ApprovalRequested' THEN
        INSERT INTO p_approvals (session_id, seq, task, step, question, digest, asked_us)
        VALUES (p_session, e.seq, j ->> 'task', j ->> 'step', j ->> 'question', j ->> 'digest', e.time_us) ON CONFLICT DO NOTHING;
    ELSE
        UPDATE p_approvals a SET answer = CASE e.type WHEN 'ApprovalGranted' THEN 'granted' ELSE 'denied' END,
            answer_seq = e.seq, answered_us = e.time_us, by = j ->> 'by', reason = j ->> 'reason'
        WHERE a.session_id = p_session AND a.seq = (
            SELECT max(b.seq) FROM p_approvals b WHERE b.session_id = p_session AND b.seq < e.seq
                AND (b.task, b.step, b.digest) IS NOT DISTINCT FROM (j ->> 'task', j ->> 'step', j ->> 'digest'));
    END IF;
END
$$;


ALTER FUNCTION acode.project_approval(p_session uuid, e record, j jsonb) OWNER TO acode_owner;

--
-- Name: project_call(uuid, record, jsonb, text); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.project_call(p_session uuid, e record, j jsonb, p_status text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
DECLARE
    v_task    text := as_name(j ->> 'task');
    v_step    text := as_name(j ->> 'step');
    v_attempt bigint := coalesce(as_number(j ->> 'attempt'), 0);
    v_op      text := as_name(split_part(split_part(j ->> 'key', ':', 3), '/', 3));
    v_started boolean := p_status = 'in_progress';
    r         jsonb := coalesce(j -> 'command', '{}');
BEGIN
    IF v_task = '' AND v_step = '' THEN
        RETURN; -- its content is not here
    END IF;
    INSERT INTO p_tool_calls AS c (session_id, task, step, operation, attempt, key, kind, status, by, start_seq, last_seq, started_us, ended_us,
        exit, signal, timed_out, duration_us, stdout_bytes, stderr_bytes, code, message)
    VALUES (p_session, v_task, v_step, v_op, v_attempt, j ->> 'key', j ->> 'kind', p_status, j ->> 'by',
        CASE WHEN v_started THEN e.seq END, e.seq, CASE WHEN v_started THEN e.time_us END, CASE WHEN NOT v_started THEN e.time_us END,
        as_number(r ->> 'exit'), r ->> 'signal', (r ->> 'timed_out') = 'true', as_number(r ->> 'duration_us'),
        as_number(r #>> '{stdout,bytes}'), as_number(r #>> '{stderr,bytes}'), j ->> 'code', coalesce(j ->> 'message', j ->> 'why'))
    ON CONFLICT (session_id, task, step, operation, attempt) DO UPDATE SET
        key = coalesce(excluded.key, c.key), kind = coalesce(excluded.kind, c.kind), status = excluded.status,
        by = coalesce(excluded.by, c.by), start_seq = coalesce(excluded.start_seq, c.start_seq), last_seq = excluded.last_seq,
        started_us = coalesce(excluded.started_us, c.started_us), ended_us = excluded.ended_us, exit = excluded.exit,
        signal = excluded.signal, timed_out = excluded.timed_out, duration_us = excluded.duration_us,
        stdout_bytes = excluded.stdout_bytes, stderr_bytes = excluded.stderr_bytes, code = excluded.code, message = excluded.message;
    INSERT INTO p_steps AS s (session_id, task, step, kind, status, attempt, start_seq, last_seq, started_us, ended_us, code, message)
    VALUES (p_session, v_task, v_step, j ->> 'kind', p_status, v_attempt, CASE WHEN v_started THEN e.seq END, e.seq,
        CASE WHEN v_started THEN e.time_us END, CASE WHEN NOT v_started THEN e.time_us END, j ->> 'code', coalesce(j ->> 'message', j ->> 'why'))
    ON CONFLICT (session_id, task, step) DO UPDATE SET
        kind = coalesce(excluded.kind, s.kind), status = excluded.status, attempt = excluded.attempt,
        start_seq = coalesce(excluded.start_seq, s.start_seq), last_seq = excluded.last_seq,
        started_us = coalesce(excluded.started_us, s.started_us), ended_us = excluded.ended_us, code = excluded.code, message = excluded.message;
END
$$;


ALTER FUNCTION acode.project_call(p_session uuid, e record, j jsonb, p_status text) OWNER TO acode_owner;

--
-- Name: project_events(acode.heads, bigint, bigint); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.project_events(h acode.heads, p_after bigint, p_to bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
DECLARE
    e       record;
    c       content;
    v_epoch bigint;
    v_last  bigint;
BEGIN
    INSERT INTO p_sessions (session_id) VALUES (h.session_id) ON CONFLICT DO NOTHING;
    FOR e IN SELECT v.seq, v.time_us, v.epoch, v.type, v.device, v.hash, v.payload FROM events v
        WHERE v.session_id = h.session_id AND v.seq > p_after AND v.seq <= p_to ORDER BY v.seq LOOP
        c := read_content(e.payload);
        IF c.flag IS NOT NULL THEN
            INSERT INTO p_flags (session_id, seq, flag) VALUES (h.session_id, e.seq, c.flag) ON CONFLICT DO NOTHING;
        END IF;
        IF e.type = 'SessionCreated' THEN
            UPDATE p_sessions s SET short_id = c.j ->> 'short_id', task = c.j ->> 'task', workspace = c.j ->> 'workspace',
                on_failure = c.j ->> 'on_failure', program = c.j ->> 'program',
                forked_from = c.j #>> '{forked_from,session}', forked_seq = as_number(c.j #>> '{forked_from,seq}'), tasks = as_number(c.j ->> 'tasks'),
                steps = as_number(c.j ->> 'steps'), state = 'created', created_us = e.time_us WHERE s.session_id = h.session_id;
        ELSIF e.type = 'StateChanged' THEN
            UPDATE p_sessions s SET state = coalesce(c.j ->> 'to', s.state), reason = c.j ->> 'reason', detail = c.j ->> 'detail'
            WHERE s.session_id = h.session_id;
        ELSIF e.type = 'ExecutionAcquired' THEN
            UPDATE p_sessions s SET host = c.j ->> 'host', pid = as_number(c.j ->> 'pid'), workspace = coalesce(c.j ->> 'workspace', s.workspace)
            WHERE s.session_id = h.session_id;
            INSERT INTO p_machines AS m (owner, device, host, workspace, pid, last_us)
            VALUES (h.owner, left(coalesce(c.j ->> 'device', e.device), 200), c.j ->> 'host', c.j ->> 'workspace', as_number(c.j ->> 'pid'), e.time_us)
            ON CONFLICT (owner, device) DO UPDATE SET host = excluded.host, workspace = excluded.workspace, pid = excluded.pid,
                last_us = excluded.last_us WHERE m.last_us <= excluded.last_us;
        ELSIF e.type IN ('StepStarted', 'StepCompleted', 'StepFailed', 'StepUnknown') THEN
            PERFORM project_call(h.session_id, e, c.j, CASE e.type WHEN 'StepStarted' THEN 'in_progress' WHEN 'StepCompleted' THEN 'completed'
                WHEN 'StepFailed' THEN 'failed' ELSE 'uncertain' END);
        ELSIF e.type IN ('ApprovalRequested', 'ApprovalGranted', 'ApprovalDenied') THEN
            PERFORM project_approval(h.session_id, e, c.j);
        END IF;
        IF e.type IN ('StepCompleted', 'StepFailed', 'CheckpointCreated') THEN
            INSERT INTO p_checkpoints (session_id, seq, time_us, epoch, task, step, why, hash)
            VALUES (h.session_id, e.seq, e.time_us, e.epoch, c.j ->> 'task', c.j ->> 'step', c.j ->> 'why', e.hash) ON CONFLICT DO NOTHING;
        END IF;
        v_epoch := e.epoch;
        v_last := e.time_us;
    END LOOP;
    UPDATE p_sessions s SET epoch = coalesce(v_epoch, s.epoch), last_us = coalesce(v_last, s.last_us) WHERE s.session_id = h.session_id;
END
$$;


ALTER FUNCTION acode.project_events(h acode.heads, p_after bigint, p_to bigint) OWNER TO acode_owner;

--
-- Name: prune_month(date); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.prune_month(p_month date) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    SET lock_timeout TO '5s'
    AS $$
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


ALTER FUNCTION acode.prune_month(p_month date) OWNER TO acode_owner;

--
-- Name: put_chunk(bytea, integer, bytea, bytea); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.put_chunk(p_hash bytea, p_n integer, p_sum bytea, p_data bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
BEGIN
    PERFORM be_durable();
    IF sha256(p_data) IS DISTINCT FROM p_sum THEN
        RAISE EXCEPTION 'a chunk is not what was sent' USING ERRCODE = 'AC005';
    END IF;
    IF NOT EXISTS (SELECT 1 FROM blobs b WHERE b.owner = session_user AND b.hash = p_hash) THEN
        INSERT INTO blob_chunks AS c (owner, hash, n, sum, data) VALUES (session_user, p_hash, p_n, p_sum, p_data)
        ON CONFLICT (owner, hash, n) DO UPDATE SET sum = excluded.sum, data = excluded.data WHERE c.sum <> excluded.sum;
    END IF;
END
$$;


ALTER FUNCTION acode.put_chunk(p_hash bytea, p_n integer, p_sum bytea, p_data bytea) OWNER TO acode_owner;

--
-- Name: read_content(bytea); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.read_content(p bytea) RETURNS acode.content
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
DECLARE
    c content := ('{}'::jsonb, NULL);
    t text;
BEGIN
    IF substr(p, 1, 16) = '{"payload_blob":'::bytea THEN
        c.flag := 'in_blob';
        RETURN c;
    ELSIF substr(p, 1, 12) = '{"withheld":'::bytea THEN
        c.flag := 'withheld';
        RETURN c;
    END IF;
    BEGIN
        t := convert_from(p, 'UTF8');
        BEGIN
            c.j := t::jsonb;
        EXCEPTION WHEN untranslatable_character OR invalid_text_representation THEN
            c.j := regexp_replace(t, '(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\1\\ufffd', 'g')::jsonb;
            c.flag := 'replaced';
        END;
        IF jsonb_typeof(c.j) <> 'object' THEN
            c := ('{}'::jsonb, 'no_object');
        END IF;
    EXCEPTION WHEN OTHERS THEN
        c := ('{}'::jsonb, 'unreadable ' || SQLSTATE);
    END;
    RETURN c;
END
$$;


ALTER FUNCTION acode.read_content(p bytea) OWNER TO acode_owner;

--
-- Name: take_copied(); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.take_copied() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
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


ALTER FUNCTION acode.take_copied() OWNER TO acode_owner;

--
-- Name: verify_chains(integer); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.verify_chains(p_limit integer) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'acode', 'pg_temp'
    AS $$
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


ALTER FUNCTION acode.verify_chains(p_limit integer) OWNER TO acode_owner;

--
-- Name: zero_hash(); Type: FUNCTION; Schema: acode; Owner: acode_owner
--

CREATE FUNCTION acode.zero_hash() RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN decode('0000000000000000000000000000000000000000000000000000000000000000'::text, 'hex'::text);


ALTER FUNCTION acode.zero_hash() OWNER TO acode_owner;

--
-- Name: at(bigint); Type: FUNCTION; Schema: acode_views; Owner: acode_owner
--

CREATE FUNCTION acode_views.at(us bigint) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ('1970-01-01 00:00:00+00'::timestamp with time zone + ((us)::double precision * '00:00:00.000001'::interval));


ALTER FUNCTION acode_views.at(us bigint) OWNER TO acode_owner;

--
-- Name: blob_chunks; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.blob_chunks (
    owner name NOT NULL,
    hash bytea NOT NULL,
    n integer NOT NULL,
    sum bytea NOT NULL,
    data bytea NOT NULL,
    CONSTRAINT blob_chunks_data_check CHECK ((octet_length(data) <= 1048576)),
    CONSTRAINT blob_chunks_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT blob_chunks_n_check CHECK (((n >= 0) AND (n <= 1000000))),
    CONSTRAINT blob_chunks_sum_check CHECK ((octet_length(sum) = 32))
);
ALTER TABLE ONLY acode.blob_chunks ALTER COLUMN data SET STORAGE EXTERNAL;


ALTER TABLE acode.blob_chunks OWNER TO acode_owner;

--
-- Name: blobs; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.blobs (
    owner name NOT NULL,
    hash bytea NOT NULL,
    bytes bigint NOT NULL,
    chunks integer NOT NULL,
    stored bigint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT blobs_bytes_check CHECK ((bytes >= 0)),
    CONSTRAINT blobs_chunks_check CHECK ((chunks >= 1)),
    CONSTRAINT blobs_hash_check CHECK ((octet_length(hash) = 32))
);


ALTER TABLE acode.blobs OWNER TO acode_owner;

--
-- Name: counts; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.counts (
    owner name NOT NULL,
    device text NOT NULL,
    shard smallint NOT NULL,
    events bigint NOT NULL
)
WITH (fillfactor='50');


ALTER TABLE acode.counts OWNER TO acode_owner;

--
-- Name: events; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.events (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT events_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 200))),
    CONSTRAINT events_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT events_payload_check CHECK ((octet_length(payload) <= 16384)),
    CONSTRAINT events_type_check CHECK (((length(type) >= 1) AND (length(type) <= 100)))
)
PARTITION BY RANGE (received_at);


ALTER TABLE acode.events OWNER TO acode_owner;

--
-- Name: events_2026_11; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.events_2026_11 (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT events_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 200))),
    CONSTRAINT events_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT events_payload_check CHECK ((octet_length(payload) <= 16384)),
    CONSTRAINT events_type_check CHECK (((length(type) >= 1) AND (length(type) <= 100)))
);


ALTER TABLE acode.events_2026_11 OWNER TO acode_owner;

--
-- Name: events_2026_12; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.events_2026_12 (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT events_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 200))),
    CONSTRAINT events_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT events_payload_check CHECK ((octet_length(payload) <= 16384)),
    CONSTRAINT events_type_check CHECK (((length(type) >= 1) AND (length(type) <= 100)))
);


ALTER TABLE acode.events_2026_12 OWNER TO acode_owner;

--
-- Name: events_2027_01; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.events_2027_01 (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT events_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 200))),
    CONSTRAINT events_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT events_payload_check CHECK ((octet_length(payload) <= 16384)),
    CONSTRAINT events_type_check CHECK (((length(type) >= 1) AND (length(type) <= 100)))
);


ALTER TABLE acode.events_2027_01 OWNER TO acode_owner;

--
-- Name: events_2027_02; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.events_2027_02 (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT events_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 200))),
    CONSTRAINT events_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT events_payload_check CHECK ((octet_length(payload) <= 16384)),
    CONSTRAINT events_type_check CHECK (((length(type) >= 1) AND (length(type) <= 100)))
);


ALTER TABLE acode.events_2027_02 OWNER TO acode_owner;

--
-- Name: events_2027_03; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.events_2027_03 (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT events_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 200))),
    CONSTRAINT events_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT events_payload_check CHECK ((octet_length(payload) <= 16384)),
    CONSTRAINT events_type_check CHECK (((length(type) >= 1) AND (length(type) <= 100)))
);


ALTER TABLE acode.events_2027_03 OWNER TO acode_owner;

--
-- Name: events_2027_04; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.events_2027_04 (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT events_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 200))),
    CONSTRAINT events_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT events_payload_check CHECK ((octet_length(payload) <= 16384)),
    CONSTRAINT events_type_check CHECK (((length(type) >= 1) AND (length(type) <= 100)))
);


ALTER TABLE acode.events_2027_04 OWNER TO acode_owner;

--
-- Name: events_2027_05; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.events_2027_05 (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT events_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 200))),
    CONSTRAINT events_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT events_payload_check CHECK ((octet_length(payload) <= 16384)),
    CONSTRAINT events_type_check CHECK (((length(type) >= 1) AND (length(type) <= 100)))
);


ALTER TABLE acode.events_2027_05 OWNER TO acode_owner;

--
-- Name: events_2027_06; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.events_2027_06 (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT events_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 200))),
    CONSTRAINT events_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT events_payload_check CHECK ((octet_length(payload) <= 16384)),
    CONSTRAINT events_type_check CHECK (((length(type) >= 1) AND (length(type) <= 100)))
);


ALTER TABLE acode.events_2027_06 OWNER TO acode_owner;

--
-- Name: events_2027_07; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.events_2027_07 (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT events_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 200))),
    CONSTRAINT events_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT events_payload_check CHECK ((octet_length(payload) <= 16384)),
    CONSTRAINT events_type_check CHECK (((length(type) >= 1) AND (length(type) <= 100)))
);


ALTER TABLE acode.events_2027_07 OWNER TO acode_owner;

--
-- Name: events_2027_08; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.events_2027_08 (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT events_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 200))),
    CONSTRAINT events_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT events_payload_check CHECK ((octet_length(payload) <= 16384)),
    CONSTRAINT events_type_check CHECK (((length(type) >= 1) AND (length(type) <= 100)))
);


ALTER TABLE acode.events_2027_08 OWNER TO acode_owner;

--
-- Name: events_2027_09; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.events_2027_09 (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT events_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 200))),
    CONSTRAINT events_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT events_payload_check CHECK ((octet_length(payload) <= 16384)),
    CONSTRAINT events_type_check CHECK (((length(type) >= 1) AND (length(type) <= 100)))
);


ALTER TABLE acode.events_2027_09 OWNER TO acode_owner;

--
-- Name: events_2027_10; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.events_2027_10 (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT events_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 200))),
    CONSTRAINT events_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT events_payload_check CHECK ((octet_length(payload) <= 16384)),
    CONSTRAINT events_type_check CHECK (((length(type) >= 1) AND (length(type) <= 100)))
);


ALTER TABLE acode.events_2027_10 OWNER TO acode_owner;

--
-- Name: events_2027_11; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.events_2027_11 (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT events_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 200))),
    CONSTRAINT events_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT events_payload_check CHECK ((octet_length(payload) <= 16384)),
    CONSTRAINT events_type_check CHECK (((length(type) >= 1) AND (length(type) <= 100)))
);


ALTER TABLE acode.events_2027_11 OWNER TO acode_owner;

--
-- Name: forks; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.forks (
    fork bigint NOT NULL,
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    reason text NOT NULL,
    owner name NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    id uuid NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    type text NOT NULL,
    actor text NOT NULL,
    device text NOT NULL,
    prev bytea NOT NULL,
    hash bytea NOT NULL,
    payload bytea NOT NULL,
    CONSTRAINT forks_reason_check CHECK ((reason = ANY (ARRAY['fenced'::text, 'forked'::text])))
);


ALTER TABLE acode.forks OWNER TO acode_owner;

--
-- Name: forks_fork_seq; Type: SEQUENCE; Schema: acode; Owner: acode_owner
--

ALTER TABLE acode.forks ALTER COLUMN fork ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME acode.forks_fork_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: goose_db_version; Type: TABLE; Schema: acode; Owner: postgres
--

CREATE TABLE acode.goose_db_version (
    id integer NOT NULL,
    version_id bigint NOT NULL,
    is_applied boolean NOT NULL,
    tstamp timestamp without time zone DEFAULT now() NOT NULL
);


ALTER TABLE acode.goose_db_version OWNER TO postgres;

--
-- Name: goose_db_version_id_seq; Type: SEQUENCE; Schema: acode; Owner: postgres
--

ALTER TABLE acode.goose_db_version ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME acode.goose_db_version_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: meta; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.meta (
    one boolean DEFAULT true NOT NULL,
    schema_version integer NOT NULL,
    oldest_client integer NOT NULL,
    retry_after_ms integer DEFAULT 0 NOT NULL,
    made_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT meta_one_check CHECK (one),
    CONSTRAINT meta_retry_after_ms_check CHECK (((retry_after_ms >= 0) AND (retry_after_ms <= 3600000)))
);


ALTER TABLE acode.meta OWNER TO acode_owner;

--
-- Name: p_approvals; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.p_approvals (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    task text,
    step text,
    question text,
    digest text,
    asked_us bigint NOT NULL,
    answer text,
    answer_seq bigint,
    answered_us bigint,
    by text,
    reason text
);


ALTER TABLE acode.p_approvals OWNER TO acode_owner;

--
-- Name: p_checkpoints; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.p_checkpoints (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    time_us bigint NOT NULL,
    epoch bigint NOT NULL,
    task text,
    step text,
    why text,
    hash bytea NOT NULL
);


ALTER TABLE acode.p_checkpoints OWNER TO acode_owner;

--
-- Name: p_flags; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.p_flags (
    session_id uuid NOT NULL,
    seq bigint NOT NULL,
    flag text NOT NULL
);


ALTER TABLE acode.p_flags OWNER TO acode_owner;

--
-- Name: p_machines; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.p_machines (
    owner name NOT NULL,
    device text NOT NULL,
    host text,
    workspace text,
    pid bigint,
    last_us bigint NOT NULL
);


ALTER TABLE acode.p_machines OWNER TO acode_owner;

--
-- Name: p_sessions; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.p_sessions (
    session_id uuid NOT NULL,
    short_id text,
    task text,
    workspace text,
    on_failure text,
    program text,
    forked_from text,
    forked_seq bigint,
    tasks bigint,
    steps bigint,
    state text,
    reason text,
    detail text,
    host text,
    pid bigint,
    epoch bigint DEFAULT 0 NOT NULL,
    created_us bigint,
    last_us bigint
);


ALTER TABLE acode.p_sessions OWNER TO acode_owner;

--
-- Name: p_steps; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.p_steps (
    session_id uuid NOT NULL,
    task text NOT NULL,
    step text NOT NULL,
    kind text,
    status text NOT NULL,
    attempt bigint,
    start_seq bigint,
    last_seq bigint NOT NULL,
    started_us bigint,
    ended_us bigint,
    code text,
    message text
);


ALTER TABLE acode.p_steps OWNER TO acode_owner;

--
-- Name: p_tool_calls; Type: TABLE; Schema: acode; Owner: acode_owner
--

CREATE TABLE acode.p_tool_calls (
    session_id uuid NOT NULL,
    task text NOT NULL,
    step text NOT NULL,
    operation text NOT NULL,
    attempt bigint NOT NULL,
    key text,
    kind text,
    status text NOT NULL,
    by text,
    start_seq bigint,
    last_seq bigint NOT NULL,
    started_us bigint,
    ended_us bigint,
    exit bigint,
    signal text,
    timed_out boolean,
    duration_us bigint,
    stdout_bytes bigint,
    stderr_bytes bigint,
    code text,
    message text
);


ALTER TABLE acode.p_tool_calls OWNER TO acode_owner;

--
-- Name: approvals; Type: VIEW; Schema: acode_views; Owner: acode_owner
--

CREATE VIEW acode_views.approvals AS
 SELECT a.session_id,
    a.seq,
    a.task,
    a.step,
    a.question,
    a.digest,
    acode_views.at(a.asked_us) AS asked_at,
    a.answer,
    a.answer_seq,
    acode_views.at(a.answered_us) AS answered_at,
    a.by,
    a.reason
   FROM acode.p_approvals a;


ALTER TABLE acode_views.approvals OWNER TO acode_owner;

--
-- Name: blob_chunks; Type: VIEW; Schema: acode_views; Owner: acode_owner
--

CREATE VIEW acode_views.blob_chunks AS
 SELECT k.owner,
    encode(k.hash, 'hex'::text) AS hash,
    k.n,
    k.data
   FROM (acode.blob_chunks k
     JOIN acode.blobs b ON (((b.owner = k.owner) AND (b.hash = k.hash))));


ALTER TABLE acode_views.blob_chunks OWNER TO acode_owner;

--
-- Name: blobs; Type: VIEW; Schema: acode_views; Owner: acode_owner
--

CREATE VIEW acode_views.blobs AS
 SELECT b.owner,
    encode(b.hash, 'hex'::text) AS hash,
    b.bytes,
    b.stored,
    b.chunks,
    b.created_at
   FROM acode.blobs b;


ALTER TABLE acode_views.blobs OWNER TO acode_owner;

--
-- Name: checkpoints; Type: VIEW; Schema: acode_views; Owner: acode_owner
--

CREATE VIEW acode_views.checkpoints AS
 SELECT k.session_id,
    k.seq,
    acode_views.at(k.time_us) AS taken_at,
    k.epoch,
    k.task,
    k.step,
    k.why,
    encode(k.hash, 'hex'::text) AS hash
   FROM acode.p_checkpoints k;


ALTER TABLE acode_views.checkpoints OWNER TO acode_owner;

--
-- Name: events; Type: VIEW; Schema: acode_views; Owner: acode_owner
--

CREATE VIEW acode_views.events AS
 SELECT e.session_id,
    e.seq,
    e.id,
    acode_views.at(e.time_us) AS happened_at,
    e.received_at,
    e.type,
    e.actor,
    e.epoch,
    e.device,
    encode(e.hash, 'hex'::text) AS hash,
    e.payload
   FROM acode.events e;


ALTER TABLE acode_views.events OWNER TO acode_owner;

--
-- Name: flags; Type: VIEW; Schema: acode_views; Owner: acode_owner
--

CREATE VIEW acode_views.flags AS
 SELECT g.session_id,
    g.seq,
    g.flag
   FROM acode.p_flags g;


ALTER TABLE acode_views.flags OWNER TO acode_owner;

--
-- Name: forks; Type: VIEW; Schema: acode_views; Owner: acode_owner
--

CREATE VIEW acode_views.forks AS
 SELECT f.fork,
    f.session_id,
    f.seq,
    f.reason,
    f.owner,
    f.device,
    f.received_at,
    f.id,
    acode_views.at(f.time_us) AS happened_at,
    f.epoch,
    f.type,
    f.actor,
    encode(f.prev, 'hex'::text) AS prev,
    encode(f.hash, 'hex'::text) AS hash,
    f.payload
   FROM acode.forks f;


ALTER TABLE acode_views.forks OWNER TO acode_owner;

--
-- Name: machines; Type: VIEW; Schema: acode_views; Owner: acode_owner
--

CREATE VIEW acode_views.machines AS
 SELECT h.owner,
    h.device,
    m.host,
    m.workspace,
    m.pid,
    acode_views.at(m.last_us) AS last_execution_at,
    h.sessions,
    h.events,
    h.received_at,
    (clock_timestamp() - h.received_at) AS quiet
   FROM (( SELECT heads.owner,
            heads.device,
            count(*) AS sessions,
            (sum(heads.last_seq))::bigint AS events,
            max(heads.updated_at) AS received_at
           FROM acode.heads
          GROUP BY heads.owner, heads.device) h
     LEFT JOIN acode.p_machines m USING (owner, device));


ALTER TABLE acode_views.machines OWNER TO acode_owner;

--
-- Name: sessions; Type: VIEW; Schema: acode_views; Owner: acode_owner
--

CREATE VIEW acode_views.sessions AS
 SELECT h.session_id,
    p.short_id,
    h.owner,
    h.device,
    p.host,
    p.pid,
    p.task,
    p.workspace,
    p.state,
    p.reason,
    p.detail,
    p.on_failure,
    p.program,
    p.forked_from,
    p.forked_seq,
    p.tasks,
    p.steps,
    ( SELECT count(*) AS count
           FROM acode.p_steps s
          WHERE ((s.session_id = h.session_id) AND (s.status = 'completed'::text))) AS steps_completed,
    h.epoch,
    acode_views.at(p.created_us) AS created_at,
    acode_views.at(p.last_us) AS last_event_at,
    h.updated_at AS received_at,
    h.last_seq,
    h.first_seq,
    h.verified_seq,
    h.projected_seq,
    h.broken_seq,
    encode(h.head, 'hex'::text) AS head
   FROM (acode.heads h
     LEFT JOIN acode.p_sessions p USING (session_id));


ALTER TABLE acode_views.sessions OWNER TO acode_owner;

--
-- Name: steps; Type: VIEW; Schema: acode_views; Owner: acode_owner
--

CREATE VIEW acode_views.steps AS
 SELECT s.session_id,
    s.task,
    s.step,
    s.kind,
    s.status,
    s.attempt,
    acode_views.at(s.started_us) AS started_at,
    acode_views.at(s.ended_us) AS ended_at,
    s.start_seq,
    s.last_seq,
    s.code,
    s.message
   FROM acode.p_steps s;


ALTER TABLE acode_views.steps OWNER TO acode_owner;

--
-- Name: tasks; Type: VIEW; Schema: acode_views; Owner: acode_owner
--

CREATE VIEW acode_views.tasks AS
 SELECT s.session_id,
    s.task,
    count(*) AS steps_begun,
    count(*) FILTER (WHERE (s.status = 'completed'::text)) AS steps_completed,
        CASE
            WHEN bool_or((s.status = 'uncertain'::text)) THEN 'uncertain'::text
            WHEN bool_or((s.status = 'failed'::text)) THEN 'failed'::text
            WHEN bool_or((s.status = 'in_progress'::text)) THEN 'in_progress'::text
            ELSE 'completed'::text
        END AS status,
    acode_views.at(min(s.started_us)) AS started_at,
    acode_views.at(max(s.ended_us)) AS ended_at,
    min(s.start_seq) AS start_seq,
    max(s.last_seq) AS last_seq
   FROM acode.p_steps s
  GROUP BY s.session_id, s.task;


ALTER TABLE acode_views.tasks OWNER TO acode_owner;

--
-- Name: tool_calls; Type: VIEW; Schema: acode_views; Owner: acode_owner
--

CREATE VIEW acode_views.tool_calls AS
 SELECT c.session_id,
    c.task,
    c.step,
    c.operation,
    c.attempt,
    c.key,
    c.kind,
    c.status,
    c.by,
    acode_views.at(c.started_us) AS started_at,
    acode_views.at(c.ended_us) AS ended_at,
    c.duration_us,
    c.exit,
    c.signal,
    c.timed_out,
    c.stdout_bytes,
    c.stderr_bytes,
    c.code,
    c.message,
    c.start_seq,
    c.last_seq
   FROM acode.p_tool_calls c;


ALTER TABLE acode_views.tool_calls OWNER TO acode_owner;

--
-- Name: events_2026_11; Type: TABLE ATTACH; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events ATTACH PARTITION acode.events_2026_11 FOR VALUES FROM ('2026-11-01 00:00:00+00') TO ('2026-12-01 00:00:00+00');


--
-- Name: events_2026_12; Type: TABLE ATTACH; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events ATTACH PARTITION acode.events_2026_12 FOR VALUES FROM ('2026-12-01 00:00:00+00') TO ('2027-01-01 00:00:00+00');


--
-- Name: events_2027_01; Type: TABLE ATTACH; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events ATTACH PARTITION acode.events_2027_01 FOR VALUES FROM ('2027-01-01 00:00:00+00') TO ('2027-02-01 00:00:00+00');


--
-- Name: events_2027_02; Type: TABLE ATTACH; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events ATTACH PARTITION acode.events_2027_02 FOR VALUES FROM ('2027-02-01 00:00:00+00') TO ('2027-03-01 00:00:00+00');


--
-- Name: events_2027_03; Type: TABLE ATTACH; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events ATTACH PARTITION acode.events_2027_03 FOR VALUES FROM ('2027-03-01 00:00:00+00') TO ('2027-04-01 00:00:00+00');


--
-- Name: events_2027_04; Type: TABLE ATTACH; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events ATTACH PARTITION acode.events_2027_04 FOR VALUES FROM ('2027-04-01 00:00:00+00') TO ('2027-05-01 00:00:00+00');


--
-- Name: events_2027_05; Type: TABLE ATTACH; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events ATTACH PARTITION acode.events_2027_05 FOR VALUES FROM ('2027-05-01 00:00:00+00') TO ('2027-06-01 00:00:00+00');


--
-- Name: events_2027_06; Type: TABLE ATTACH; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events ATTACH PARTITION acode.events_2027_06 FOR VALUES FROM ('2027-06-01 00:00:00+00') TO ('2027-07-01 00:00:00+00');


--
-- Name: events_2027_07; Type: TABLE ATTACH; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events ATTACH PARTITION acode.events_2027_07 FOR VALUES FROM ('2027-07-01 00:00:00+00') TO ('2027-08-01 00:00:00+00');


--
-- Name: events_2027_08; Type: TABLE ATTACH; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events ATTACH PARTITION acode.events_2027_08 FOR VALUES FROM ('2027-08-01 00:00:00+00') TO ('2027-09-01 00:00:00+00');


--
-- Name: events_2027_09; Type: TABLE ATTACH; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events ATTACH PARTITION acode.events_2027_09 FOR VALUES FROM ('2027-09-01 00:00:00+00') TO ('2027-10-01 00:00:00+00');


--
-- Name: events_2027_10; Type: TABLE ATTACH; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events ATTACH PARTITION acode.events_2027_10 FOR VALUES FROM ('2027-10-01 00:00:00+00') TO ('2027-11-01 00:00:00+00');


--
-- Name: events_2027_11; Type: TABLE ATTACH; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events ATTACH PARTITION acode.events_2027_11 FOR VALUES FROM ('2027-11-01 00:00:00+00') TO ('2027-12-01 00:00:00+00');


--
-- Data for Name: blob_chunks; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--

INSERT INTO acode.blob_chunks VALUES ('postgres', '\xc633e5eaf026b17f836ee1f2343ddc591bf134eca8f96283057aaaf3631c6c0f', 0, '\xf5fedcade0a54322c024cb7488ca4a14751e043f8666eb27e7e78600475cd7ac', '\x28b52ffd0400b90000636f6e74656e74206f662074686520666978747572650a1730cf0f');


--
-- Data for Name: blobs; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--

INSERT INTO acode.blobs VALUES ('postgres', '\xc633e5eaf026b17f836ee1f2343ddc591bf134eca8f96283057aaaf3631c6c0f', 23, 1, 36, '2026-11-21 15:12:57.704675+00');


--
-- Data for Name: counts; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--

INSERT INTO acode.counts VALUES ('postgres', '0123456789abcdef0123456789abcdef', 2, 30);
INSERT INTO acode.counts VALUES ('postgres', '0123456789abcdef0123456789abcdef', 5, 15);


--
-- Data for Name: events_2026_11; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--

INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 1, '2026-11-21 15:12:57.709548+00', '00000000-0000-0001-59b3-145aad6a4ae3', 1800000000000001, 0, 'SessionCreated', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xf161db968d8e019d0a7d9ecd90c8e5684feb3cadba8e3ae4244e1804ee2ed341', '\x7b2276223a312c226e223a307d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 2, '2026-11-21 15:12:57.709548+00', '00000000-0000-0002-e4cf-95516bd7a399', 1800000000000002, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xdcde7efa8a3756ffa7874ac4010dd12c733d1cbc3174d03ee0c84882f922aa8a', '\x7b2276223a312c226e223a317d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 3, '2026-11-21 15:12:57.709548+00', '00000000-0000-0003-79eb-06c975ad18aa', 1800000000000003, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x8f5ee48bbed7ae4c77fd76416a13775b83fe2cb66807646cf20b21ed6276660f', '\x7b2276223a312c226e223a327d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 4, '2026-11-21 15:12:57.709548+00', '00000000-0000-0004-a50f-f045f097c0f9', 1800000000000004, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x3b8e6e2b76bd73efa372d34cc0f82d1e31ff509fe3b106cdff19f56b38f13354', '\x7b2276223a312c226e223a337d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 5, '2026-11-21 15:12:57.709548+00', '00000000-0000-0005-c181-f3ae71fb79cc', 1800000000000005, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x7f5a442fa3e85f7f8f0f7f0d2f41b9d672035e519d7d87511efaeb3b523e3181', '\x7b2276223a312c226e223a347d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 6, '2026-11-21 15:12:57.709548+00', '00000000-0000-0006-0667-11529d33d0bc', 1800000000000006, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x1cd895410315dbc67e61a76a00a49181d66d424fd75e9eef1ab9b7bf980c52d6', '\x7b2276223a312c226e223a357d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 7, '2026-11-21 15:12:57.709548+00', '00000000-0000-0007-16ef-95e53797076e', 1800000000000007, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x683da1c3506064915c4fa393080ccea726cebc6f3c179fd3b22d5b465f8cff19', '\x7b2276223a312c226e223a367d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 8, '2026-11-21 15:12:57.709548+00', '00000000-0000-0008-509f-aeb47f027b79', 1800000000000008, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xdc470d064a7fc141b9b817127251832a60b4d4e0d9823259a6c491beec477a65', '\x7b2276223a312c226e223a377d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 9, '2026-11-21 15:12:57.709548+00', '00000000-0000-0009-9b38-76d386e238b6', 1800000000000009, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x3b35f9c5de768943db2e5b1612950d7b01875661035488cf9a0d3e77569194ef', '\x7b2276223a312c226e223a387d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 10, '2026-11-21 15:12:57.709548+00', '00000000-0000-000a-b4c6-d3f533e3d7c5', 1800000000000010, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xce62f46c43b62b0c8cb0ad823e0beec68bde262f66e53a495c22985d72e947d0', '\x7b2276223a312c226e223a397d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 11, '2026-11-21 15:12:57.709548+00', '00000000-0000-000b-baff-4990580f4e12', 1800000000000011, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x06d6fc9f7613d0cee1d75d719ed33fc5feb6a846ce08bd5645147443c743c7a2', '\x7b2276223a312c226e223a31307d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 12, '2026-11-21 15:12:57.709548+00', '00000000-0000-000c-7dcc-ef05984d2082', 1800000000000012, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x059eb00f0f2196e6ce61fb4138c2a7e49a59bfc0522f2515d6a860b1ed64e2d8', '\x7b2276223a312c226e223a31317d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 13, '2026-11-21 15:12:57.709548+00', '00000000-0000-000d-04db-322c9efac3af', 1800000000000013, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x89ce85a628f4f898f1f8105e6982170818602be0fa0e1cdd507717b003f3ef01', '\x7b2276223a312c226e223a31327d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 14, '2026-11-21 15:12:57.709548+00', '00000000-0000-000e-c85c-5047238e0567', 1800000000000014, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xacf5ea1589699a627d1a88585f30a6d6a019db252c8776a132b0c9c84a626048', '\x7b2276223a312c226e223a31337d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 15, '2026-11-21 15:12:57.709548+00', '00000000-0000-000f-2295-544a367428e0', 1800000000000015, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xf4c7e215cbc3b7eabe8b2cb0f87e526b1d7be2244c88531ca93e939ffd0b11fa', '\x7b2276223a312c226e223a31347d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 16, '2026-11-21 15:12:57.709548+00', '00000000-0000-0010-fbe3-286df518074e', 1800000000000016, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x9b2dcf7a076c138b52693e2e767bb8d42d03ea93c1e8ef37ef211544c79044cd', '\x7b2276223a312c226e223a31357d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 17, '2026-11-21 15:12:57.709548+00', '00000000-0000-0011-4efb-6ae624e7a22e', 1800000000000017, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xac8d0301a40148a71bce2aab12ef6f657ca77c7cd424a8ea7593912e7ff0f53a', '\x7b2276223a312c226e223a31367d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 18, '2026-11-21 15:12:57.709548+00', '00000000-0000-0012-8f03-5ec2c342de6e', 1800000000000018, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x4d37d590a8a370b234bee2b8ec4839f6f2f18937921bf16d7ca23547a9b93f9e', '\x7b2276223a312c226e223a31377d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 19, '2026-11-21 15:12:57.709548+00', '00000000-0000-0013-8ee0-a414e43ed336', 1800000000000019, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xa28ece551edfadd40e7976c405bf66f095aa6676734d89c151b8df7e5f94adbf', '\x7b2276223a312c226e223a31387d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 20, '2026-11-21 15:12:57.709548+00', '00000000-0000-0014-07b3-bb6a52d5edfc', 1800000000000020, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xa7c12df16c42d3f47d3ceaf85e43eac1ffac5812af7b4d15d091802e06c67dd9', '\x7b2276223a312c226e223a31397d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 21, '2026-11-21 15:12:57.709548+00', '00000000-0000-0015-32c3-173460b9b1ac', 1800000000000021, 1, 'ExecutionAcquired', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x5a00ab7ff2994f074792e5bc3224f0ac8a4f500aa8ba184ea00a67b7b7184e84', '\x7b22646576696365223a2278227d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 22, '2026-11-21 15:12:57.709548+00', '00000000-0000-0016-2189-6dc02a0cc34c', 1800000000000022, 1, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xc7bf34ee8f0f1c263bc3472cee51e2c51e547ac824a28c2e1dc500e0a30038a0', '\x7b2276223a312c226e223a32317d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 23, '2026-11-21 15:12:57.709548+00', '00000000-0000-0017-9122-6f07517d3867', 1800000000000023, 1, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xd91690958972e643918156c0fc84dc2d2447207982def1c71f707e3068c5782b', '\x7b2276223a312c226e223a32327d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 24, '2026-11-21 15:12:57.709548+00', '00000000-0000-0018-0236-ae2aecb9484b', 1800000000000024, 1, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x7ae731aad8af8ad88f5cf0b273e29be1aa094e95b217ba1c7b4af9b770a6cb0b', '\x7b2276223a312c226e223a32337d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 25, '2026-11-21 15:12:57.709548+00', '00000000-0000-0019-0b58-d85e54342200', 1800000000000025, 1, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xbb961d7399b6d6fcce1217208a6c3a00e0ea86e1dacc7efbaddfeed7181d00c6', '\x7b2276223a312c226e223a32347d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 26, '2026-11-21 15:12:57.709548+00', '00000000-0000-001a-d659-23f3f441fde1', 1800000000000026, 1, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x37cbfaf95a6daf44e350b4d8cf238a3a062834a54f4ad1469a6d6e9d11e0b65c', '\x7b2276223a312c226e223a32357d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 27, '2026-11-21 15:12:57.709548+00', '00000000-0000-001b-29e8-5893e9ae5f58', 1800000000000027, 1, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x378694d0085d5a7db8b3d2f729e936cd8a856d3f73bfd25d72cbd45b07befec6', '\x7b2276223a312c226e223a32367d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 28, '2026-11-21 15:12:57.709548+00', '00000000-0000-001c-9fd3-cccdf7ef8be8', 1800000000000028, 1, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xcec39f63eaa2e0781ba89c99e225d2a2f4f63f5db05c6882edf154948a411c0d', '\x7b2276223a312c226e223a32377d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 29, '2026-11-21 15:12:57.709548+00', '00000000-0000-001d-e266-3a1f9e71082e', 1800000000000029, 1, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x2772fcae8eb4659c7a5758d1fa1f7b98851a3ddda76756b198793fa963226947', '\x7b2276223a312c226e223a32387d');
INSERT INTO acode.events_2026_11 VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 30, '2026-11-21 15:12:57.709548+00', '00000000-0000-001e-51c8-7292de528c50', 1800000000000030, 1, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x459ce451715c28192c33e76be53833cdf75e373fa9c82bd63994158ca974610b', '\x7b2276223a312c226e223a32397d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 1, '2026-11-21 15:12:57.714972+00', '00000000-0000-0001-be12-6d0720b543fc', 1800000000000001, 0, 'SessionCreated', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x53e421b1fa264720bddb00588718a76dfeed365c15bbf5d4b22879ec38a89bc6', '\x7b2276223a312c226e223a307d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 2, '2026-11-21 15:12:57.714972+00', '00000000-0000-0002-c387-84475d7f2945', 1800000000000002, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x6b71da71a42fc5708544a9fe15ea4e03ea8d1e6b3b1ca7a99ec8bc4c19852aa0', '\x7b2276223a312c226e223a317d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 3, '2026-11-21 15:12:57.714972+00', '00000000-0000-0003-0f1a-8a3caf56d0ae', 1800000000000003, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x82a3282dcb545c1ab5a8f7230b7f818061036c08af8690e46a91d639eb36a829', '\x7b2276223a312c226e223a327d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 4, '2026-11-21 15:12:57.714972+00', '00000000-0000-0004-ebaa-e81f6499f7ff', 1800000000000004, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x4caec0311314b4de5719eb1735b5bd02afaa89daa73b6ed5c2533c791c775219', '\x7b2276223a312c226e223a337d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 5, '2026-11-21 15:12:57.714972+00', '00000000-0000-0005-ef06-5bfc0f75cd0b', 1800000000000005, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xf5dbf9ee39262b37448a6b740e5d417becbf5ba9afca6a7e29fe4d89ab68c5d3', '\x7b2276223a312c226e223a347d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 6, '2026-11-21 15:12:57.714972+00', '00000000-0000-0006-2fe4-e2cdbefc967f', 1800000000000006, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x51909c838480ba087123985a1cced0a234cd7cd029afff3039a629b9ade2e8d3', '\x7b2276223a312c226e223a357d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 7, '2026-11-21 15:12:57.714972+00', '00000000-0000-0007-20f1-24c33b2cf9d7', 1800000000000007, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xa98c306c7f8263893f4cd2255661238feca28b40e7b2b1b248c90f14ab83bf1c', '\x7b2276223a312c226e223a367d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 8, '2026-11-21 15:12:57.714972+00', '00000000-0000-0008-60b9-b62d37fb7d58', 1800000000000008, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x2c421a7c0bcc89d71763bcbd627f365367094a4e6c5db97b7739b5d9762b3f50', '\x7b2276223a312c226e223a377d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 9, '2026-11-21 15:12:57.714972+00', '00000000-0000-0009-c7c9-91de386cfe53', 1800000000000009, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xd5e4a3418fb8c695e439991262d05953b20621c92ca5d034330e3b82d5045ef1', '\x7b2276223a312c226e223a387d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 10, '2026-11-21 15:12:57.714972+00', '00000000-0000-000a-3a60-d0b86e82597e', 1800000000000010, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xb9fdb503b11722f9cc250656f318f1579329d25559bcafec0f7976c8fb9ac12e', '\x7b2276223a312c226e223a397d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 11, '2026-11-21 15:12:57.714972+00', '00000000-0000-000b-c70f-7547b5ba4441', 1800000000000011, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x3f88a52defae0ac00c8eeb4ece73ba316c20c72cd347728dea0bc531438d1b99', '\x7b2276223a312c226e223a31307d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 12, '2026-11-21 15:12:57.714972+00', '00000000-0000-000c-f88d-81fe30b6e07e', 1800000000000012, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x045d450b5dfffa9e592f7b4924cab51a758ffbc1cf0f99a9ad0c51acd2cb3634', '\x7b2276223a312c226e223a31317d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 13, '2026-11-21 15:12:57.714972+00', '00000000-0000-000d-92f2-6c3b65178ed8', 1800000000000013, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\x50d5c428b898abaaaf9fcadae3f98ccd1f8dc021c4a149fabfad9734da04277a', '\x7b2276223a312c226e223a31327d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 14, '2026-11-21 15:12:57.714972+00', '00000000-0000-000e-a0e3-702b98e40448', 1800000000000014, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xa9722dc37969e1c546cd316b0fb5b3d54d8b2f15e284b75405438fdf3b53c33f', '\x7b2276223a312c226e223a31337d');
INSERT INTO acode.events_2026_11 VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 15, '2026-11-21 15:12:57.714972+00', '00000000-0000-000f-177c-061e0b007ead', 1800000000000015, 0, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', NULL, '\xc28b4c4e69ad0d8b16d1fc36c282953f5e51eff38c6804fd1a51fa3cd0cfa107', '\x7b2276223a312c226e223a31347d');


--
-- Data for Name: events_2026_12; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: events_2027_01; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: events_2027_02; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: events_2027_03; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: events_2027_04; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: events_2027_05; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: events_2027_06; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: events_2027_07; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: events_2027_08; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: events_2027_09; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: events_2027_10; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: events_2027_11; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: forks; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--

INSERT INTO acode.forks OVERRIDING SYSTEM VALUE VALUES (1, 'f614601d-5a81-751a-b5a3-020017ed1f07', 26, 'forked', 'postgres', '2026-11-21 15:12:57.717427+00', '00000000-0000-001a-4f89-d98842d5a89f', 1800000000000026, 1, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', '\xbb961d7399b6d6fcce1217208a6c3a00e0ea86e1dacc7efbaddfeed7181d00c6', '\x08e456f7dc41a59bb598b40b1285cc1803c43416bfcd4d8f7e66a3f7212cdb70', '\x7b2276223a312c226e223a32357d');
INSERT INTO acode.forks OVERRIDING SYSTEM VALUE VALUES (2, 'f614601d-5a81-751a-b5a3-020017ed1f07', 27, 'forked', 'postgres', '2026-11-21 15:12:57.717427+00', '00000000-0000-001b-d205-86372e0d0982', 1800000000000027, 1, 'StepStarted', 'acode', '0123456789abcdef0123456789abcdef', '\x08e456f7dc41a59bb598b40b1285cc1803c43416bfcd4d8f7e66a3f7212cdb70', '\xa4f81856578ae595b4a8cf8e9b9550deef6f4636b0d07605d3da4296be45b3f7', '\x7b2276223a312c226e223a32367d');


--
-- Data for Name: goose_db_version; Type: TABLE DATA; Schema: acode; Owner: postgres
--

INSERT INTO acode.goose_db_version VALUES (1, 0, true, '2026-11-21 15:12:57.480059');
INSERT INTO acode.goose_db_version VALUES (2, 1, true, '2026-11-21 15:12:57.500014');
INSERT INTO acode.goose_db_version VALUES (3, 2, true, '2026-11-21 15:12:57.638754');
INSERT INTO acode.goose_db_version VALUES (4, 3, true, '2026-11-21 15:12:57.641061');
INSERT INTO acode.goose_db_version VALUES (5, 4, true, '2026-11-21 15:12:57.653011');
INSERT INTO acode.goose_db_version VALUES (6, 5, true, '2026-11-21 15:12:57.654859');


--
-- Data for Name: heads; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--

INSERT INTO acode.heads VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', 'postgres', '0123456789abcdef0123456789abcdef', 15, 0, '\xc28b4c4e69ad0d8b16d1fc36c282953f5e51eff38c6804fd1a51fa3cd0cfa107', 1, '\x0000000000000000000000000000000000000000000000000000000000000000', 15, '\xc28b4c4e69ad0d8b16d1fc36c282953f5e51eff38c6804fd1a51fa3cd0cfa107', NULL, 15, '2026-11-21 15:12:57.714972+00', '2026-11-21 15:12:57.714972+00');
INSERT INTO acode.heads VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', 'postgres', '0123456789abcdef0123456789abcdef', 30, 1, '\x459ce451715c28192c33e76be53833cdf75e373fa9c82bd63994158ca974610b', 1, '\x0000000000000000000000000000000000000000000000000000000000000000', 30, '\x459ce451715c28192c33e76be53833cdf75e373fa9c82bd63994158ca974610b', NULL, 30, '2026-11-21 15:12:57.709548+00', '2026-11-21 15:12:57.709548+00');


--
-- Data for Name: meta; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--

INSERT INTO acode.meta VALUES (true, 5, 1, 0, '2026-11-21 15:12:57.500014+00');


--
-- Data for Name: p_approvals; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: p_checkpoints; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: p_flags; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: p_machines; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--

INSERT INTO acode.p_machines VALUES ('postgres', 'x', NULL, NULL, NULL, 1800000000000021);


--
-- Data for Name: p_sessions; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--

INSERT INTO acode.p_sessions VALUES ('af2615f8-5b34-74e3-aa1a-49eb6bb14cc8', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'created', NULL, NULL, NULL, NULL, 0, 1800000000000001, 1800000000000015);
INSERT INTO acode.p_sessions VALUES ('f614601d-5a81-751a-b5a3-020017ed1f07', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'created', NULL, NULL, NULL, NULL, 1, 1800000000000001, 1800000000000030);


--
-- Data for Name: p_steps; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Data for Name: p_tool_calls; Type: TABLE DATA; Schema: acode; Owner: acode_owner
--



--
-- Name: forks_fork_seq; Type: SEQUENCE SET; Schema: acode; Owner: acode_owner
--

SELECT pg_catalog.setval('acode.forks_fork_seq', 2, true);


--
-- Name: goose_db_version_id_seq; Type: SEQUENCE SET; Schema: acode; Owner: postgres
--

SELECT pg_catalog.setval('acode.goose_db_version_id_seq', 6, true);


--
-- Name: blob_chunks blob_chunks_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.blob_chunks
    ADD CONSTRAINT blob_chunks_pkey PRIMARY KEY (owner, hash, n);


--
-- Name: blobs blobs_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.blobs
    ADD CONSTRAINT blobs_pkey PRIMARY KEY (owner, hash);


--
-- Name: counts counts_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.counts
    ADD CONSTRAINT counts_pkey PRIMARY KEY (owner, device, shard);


--
-- Name: events events_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (session_id, seq, received_at);


--
-- Name: events_2026_11 events_2026_11_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events_2026_11
    ADD CONSTRAINT events_2026_11_pkey PRIMARY KEY (session_id, seq, received_at);


--
-- Name: events_2026_12 events_2026_12_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events_2026_12
    ADD CONSTRAINT events_2026_12_pkey PRIMARY KEY (session_id, seq, received_at);


--
-- Name: events_2027_01 events_2027_01_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events_2027_01
    ADD CONSTRAINT events_2027_01_pkey PRIMARY KEY (session_id, seq, received_at);


--
-- Name: events_2027_02 events_2027_02_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events_2027_02
    ADD CONSTRAINT events_2027_02_pkey PRIMARY KEY (session_id, seq, received_at);


--
-- Name: events_2027_03 events_2027_03_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events_2027_03
    ADD CONSTRAINT events_2027_03_pkey PRIMARY KEY (session_id, seq, received_at);


--
-- Name: events_2027_04 events_2027_04_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events_2027_04
    ADD CONSTRAINT events_2027_04_pkey PRIMARY KEY (session_id, seq, received_at);


--
-- Name: events_2027_05 events_2027_05_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events_2027_05
    ADD CONSTRAINT events_2027_05_pkey PRIMARY KEY (session_id, seq, received_at);


--
-- Name: events_2027_06 events_2027_06_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events_2027_06
    ADD CONSTRAINT events_2027_06_pkey PRIMARY KEY (session_id, seq, received_at);


--
-- Name: events_2027_07 events_2027_07_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events_2027_07
    ADD CONSTRAINT events_2027_07_pkey PRIMARY KEY (session_id, seq, received_at);


--
-- Name: events_2027_08 events_2027_08_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events_2027_08
    ADD CONSTRAINT events_2027_08_pkey PRIMARY KEY (session_id, seq, received_at);


--
-- Name: events_2027_09 events_2027_09_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events_2027_09
    ADD CONSTRAINT events_2027_09_pkey PRIMARY KEY (session_id, seq, received_at);


--
-- Name: events_2027_10 events_2027_10_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events_2027_10
    ADD CONSTRAINT events_2027_10_pkey PRIMARY KEY (session_id, seq, received_at);


--
-- Name: events_2027_11 events_2027_11_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.events_2027_11
    ADD CONSTRAINT events_2027_11_pkey PRIMARY KEY (session_id, seq, received_at);


--
-- Name: forks forks_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.forks
    ADD CONSTRAINT forks_pkey PRIMARY KEY (fork);


--
-- Name: forks forks_session_id_hash_key; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.forks
    ADD CONSTRAINT forks_session_id_hash_key UNIQUE (session_id, hash);


--
-- Name: goose_db_version goose_db_version_pkey; Type: CONSTRAINT; Schema: acode; Owner: postgres
--

ALTER TABLE ONLY acode.goose_db_version
    ADD CONSTRAINT goose_db_version_pkey PRIMARY KEY (id);


--
-- Name: heads heads_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.heads
    ADD CONSTRAINT heads_pkey PRIMARY KEY (session_id);


--
-- Name: meta meta_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (one);


--
-- Name: p_approvals p_approvals_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.p_approvals
    ADD CONSTRAINT p_approvals_pkey PRIMARY KEY (session_id, seq);


--
-- Name: p_checkpoints p_checkpoints_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.p_checkpoints
    ADD CONSTRAINT p_checkpoints_pkey PRIMARY KEY (session_id, seq);


--
-- Name: p_flags p_flags_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.p_flags
    ADD CONSTRAINT p_flags_pkey PRIMARY KEY (session_id, seq);


--
-- Name: p_machines p_machines_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.p_machines
    ADD CONSTRAINT p_machines_pkey PRIMARY KEY (owner, device);


--
-- Name: p_sessions p_sessions_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.p_sessions
    ADD CONSTRAINT p_sessions_pkey PRIMARY KEY (session_id);


--
-- Name: p_steps p_steps_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.p_steps
    ADD CONSTRAINT p_steps_pkey PRIMARY KEY (session_id, task, step);


--
-- Name: p_tool_calls p_tool_calls_pkey; Type: CONSTRAINT; Schema: acode; Owner: acode_owner
--

ALTER TABLE ONLY acode.p_tool_calls
    ADD CONSTRAINT p_tool_calls_pkey PRIMARY KEY (session_id, task, step, operation, attempt);


--
-- Name: heads_of_device; Type: INDEX; Schema: acode; Owner: acode_owner
--

CREATE INDEX heads_of_device ON acode.heads USING btree (owner, device, session_id);


--
-- Name: heads_to_project; Type: INDEX; Schema: acode; Owner: acode_owner
--

CREATE INDEX heads_to_project ON acode.heads USING btree (owner, session_id) WHERE (projected_seq < last_seq);


--
-- Name: heads_to_verify; Type: INDEX; Schema: acode; Owner: acode_owner
--

CREATE INDEX heads_to_verify ON acode.heads USING btree (owner, session_id) WHERE ((verified_seq < last_seq) AND (broken_seq IS NULL));


--
-- Name: events_2026_11_pkey; Type: INDEX ATTACH; Schema: acode; Owner: acode_owner
--

ALTER INDEX acode.events_pkey ATTACH PARTITION acode.events_2026_11_pkey;


--
-- Name: events_2026_12_pkey; Type: INDEX ATTACH; Schema: acode; Owner: acode_owner
--

ALTER INDEX acode.events_pkey ATTACH PARTITION acode.events_2026_12_pkey;


--
-- Name: events_2027_01_pkey; Type: INDEX ATTACH; Schema: acode; Owner: acode_owner
--

ALTER INDEX acode.events_pkey ATTACH PARTITION acode.events_2027_01_pkey;


--
-- Name: events_2027_02_pkey; Type: INDEX ATTACH; Schema: acode; Owner: acode_owner
--

ALTER INDEX acode.events_pkey ATTACH PARTITION acode.events_2027_02_pkey;


--
-- Name: events_2027_03_pkey; Type: INDEX ATTACH; Schema: acode; Owner: acode_owner
--

ALTER INDEX acode.events_pkey ATTACH PARTITION acode.events_2027_03_pkey;


--
-- Name: events_2027_04_pkey; Type: INDEX ATTACH; Schema: acode; Owner: acode_owner
--

ALTER INDEX acode.events_pkey ATTACH PARTITION acode.events_2027_04_pkey;


--
-- Name: events_2027_05_pkey; Type: INDEX ATTACH; Schema: acode; Owner: acode_owner
--

ALTER INDEX acode.events_pkey ATTACH PARTITION acode.events_2027_05_pkey;


--
-- Name: events_2027_06_pkey; Type: INDEX ATTACH; Schema: acode; Owner: acode_owner
--

ALTER INDEX acode.events_pkey ATTACH PARTITION acode.events_2027_06_pkey;


--
-- Name: events_2027_07_pkey; Type: INDEX ATTACH; Schema: acode; Owner: acode_owner
--

ALTER INDEX acode.events_pkey ATTACH PARTITION acode.events_2027_07_pkey;


--
-- Name: events_2027_08_pkey; Type: INDEX ATTACH; Schema: acode; Owner: acode_owner
--

ALTER INDEX acode.events_pkey ATTACH PARTITION acode.events_2027_08_pkey;


--
-- Name: events_2027_09_pkey; Type: INDEX ATTACH; Schema: acode; Owner: acode_owner
--

ALTER INDEX acode.events_pkey ATTACH PARTITION acode.events_2027_09_pkey;


--
-- Name: events_2027_10_pkey; Type: INDEX ATTACH; Schema: acode; Owner: acode_owner
--

ALTER INDEX acode.events_pkey ATTACH PARTITION acode.events_2027_10_pkey;


--
-- Name: events_2027_11_pkey; Type: INDEX ATTACH; Schema: acode; Owner: acode_owner
--

ALTER INDEX acode.events_pkey ATTACH PARTITION acode.events_2027_11_pkey;


--
-- Name: events take_copied; Type: TRIGGER; Schema: acode; Owner: acode_owner
--

CREATE TRIGGER take_copied AFTER INSERT ON acode.events REFERENCING NEW TABLE AS copied FOR EACH STATEMENT WHEN ((CURRENT_USER <> 'acode_owner'::name)) EXECUTE FUNCTION acode.take_copied();


--
-- Name: SCHEMA acode; Type: ACL; Schema: -; Owner: acode_owner
--

GRANT USAGE ON SCHEMA acode TO acode_writer;


--
-- Name: SCHEMA acode_views; Type: ACL; Schema: -; Owner: acode_owner
--

GRANT USAGE ON SCHEMA acode_views TO acode_reader;


--
-- Name: FUNCTION as_name(t text); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.as_name(t text) FROM PUBLIC;


--
-- Name: FUNCTION as_number(t text); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.as_number(t text) FROM PUBLIC;


--
-- Name: FUNCTION be_durable(); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.be_durable() FROM PUBLIC;


--
-- Name: FUNCTION blob_sums(p_hash bytea); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.blob_sums(p_hash bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION acode.blob_sums(p_hash bytea) TO acode_writer;


--
-- Name: FUNCTION chain_hash(p_prev bytea, p_id uuid, p_session uuid, p_seq bigint, p_time_us bigint, p_epoch bigint, p_type text, p_actor text, p_payload bytea); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.chain_hash(p_prev bytea, p_id uuid, p_session uuid, p_seq bigint, p_time_us bigint, p_epoch bigint, p_type text, p_actor text, p_payload bytea) FROM PUBLIC;


--
-- Name: FUNCTION check_chain(p_session uuid, p_after bigint, p_prev bytea, p_to bigint, OUT n bigint, OUT last_hash bytea, OUT bad bigint, OUT wrong text); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.check_chain(p_session uuid, p_after bigint, p_prev bytea, p_to bigint, OUT n bigint, OUT last_hash bytea, OUT bad bigint, OUT wrong text) FROM PUBLIC;


--
-- Name: FUNCTION check_epochs(p_epoch bigint, p_types text[], p_epochs bigint[]); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.check_epochs(p_epoch bigint, p_types text[], p_epochs bigint[]) FROM PUBLIC;


--
-- Name: FUNCTION check_session(h acode.heads, OUT n bigint, OUT bad bigint, OUT wrong text); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.check_session(h acode.heads, OUT n bigint, OUT bad bigint, OUT wrong text) FROM PUBLIC;


--
-- Name: FUNCTION extend(h acode.heads, p_device text, p_last bigint, p_epoch bigint, p_head bytea); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.extend(h acode.heads, p_device text, p_last bigint, p_epoch bigint, p_head bytea) FROM PUBLIC;


--
-- Name: FUNCTION finish_blob(p_hash bytea, p_bytes bigint, p_chunks integer, p_sums bytea); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.finish_blob(p_hash bytea, p_bytes bigint, p_chunks integer, p_sums bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION acode.finish_blob(p_hash bytea, p_bytes bigint, p_chunks integer, p_sums bytea) TO acode_writer;


--
-- Name: FUNCTION first_difference(h acode.heads, p_first bigint, p_prev bytea, p_hashes bytea[], p_epochs bigint[], p_known integer); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.first_difference(h acode.heads, p_first bigint, p_prev bytea, p_hashes bytea[], p_epochs bigint[], p_known integer) FROM PUBLIC;


--
-- Name: FUNCTION hello(p_device text); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.hello(p_device text) FROM PUBLIC;
GRANT ALL ON FUNCTION acode.hello(p_device text) TO acode_writer;


--
-- Name: FUNCTION ingest(p_session uuid, p_device text, p_first bigint, p_prev bytea, p_ids uuid[], p_times bigint[], p_types text[], p_actors text[], p_epochs bigint[], p_hashes bytea[], p_payloads bytea[]); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.ingest(p_session uuid, p_device text, p_first bigint, p_prev bytea, p_ids uuid[], p_times bigint[], p_types text[], p_actors text[], p_epochs bigint[], p_hashes bytea[], p_payloads bytea[]) FROM PUBLIC;
GRANT ALL ON FUNCTION acode.ingest(p_session uuid, p_device text, p_first bigint, p_prev bytea, p_ids uuid[], p_times bigint[], p_types text[], p_actors text[], p_epochs bigint[], p_hashes bytea[], p_payloads bytea[]) TO acode_writer;


--
-- Name: FUNCTION lock_head(p_session uuid, p_device text, p_make boolean); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.lock_head(p_session uuid, p_device text, p_make boolean) FROM PUBLIC;


--
-- Name: FUNCTION maintain(); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.maintain() FROM PUBLIC;
GRANT ALL ON FUNCTION acode.maintain() TO acode_writer;


--
-- Name: FUNCTION marks(p_device text, p_after uuid, p_limit integer); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.marks(p_device text, p_after uuid, p_limit integer) FROM PUBLIC;
GRANT ALL ON FUNCTION acode.marks(p_device text, p_after uuid, p_limit integer) TO acode_writer;


--
-- Name: FUNCTION missing_blobs(p_hashes bytea[]); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.missing_blobs(p_hashes bytea[]) FROM PUBLIC;
GRANT ALL ON FUNCTION acode.missing_blobs(p_hashes bytea[]) TO acode_writer;


--
-- Name: FUNCTION project(p_limit integer); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.project(p_limit integer) FROM PUBLIC;
GRANT ALL ON FUNCTION acode.project(p_limit integer) TO acode_writer;


--
-- Name: FUNCTION project_approval(p_session uuid, e record, j jsonb); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.project_approval(p_session uuid, e record, j jsonb) FROM PUBLIC;


--
-- Name: FUNCTION project_call(p_session uuid, e record, j jsonb, p_status text); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.project_call(p_session uuid, e record, j jsonb, p_status text) FROM PUBLIC;


--
-- Name: FUNCTION project_events(h acode.heads, p_after bigint, p_to bigint); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.project_events(h acode.heads, p_after bigint, p_to bigint) FROM PUBLIC;


--
-- Name: FUNCTION prune_month(p_month date); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.prune_month(p_month date) FROM PUBLIC;


--
-- Name: FUNCTION put_chunk(p_hash bytea, p_n integer, p_sum bytea, p_data bytea); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.put_chunk(p_hash bytea, p_n integer, p_sum bytea, p_data bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION acode.put_chunk(p_hash bytea, p_n integer, p_sum bytea, p_data bytea) TO acode_writer;


--
-- Name: FUNCTION read_content(p bytea); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.read_content(p bytea) FROM PUBLIC;


--
-- Name: FUNCTION take_copied(); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.take_copied() FROM PUBLIC;


--
-- Name: FUNCTION verify_chains(p_limit integer); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.verify_chains(p_limit integer) FROM PUBLIC;
GRANT ALL ON FUNCTION acode.verify_chains(p_limit integer) TO acode_writer;


--
-- Name: FUNCTION zero_hash(); Type: ACL; Schema: acode; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode.zero_hash() FROM PUBLIC;


--
-- Name: FUNCTION at(us bigint); Type: ACL; Schema: acode_views; Owner: acode_owner
--

REVOKE ALL ON FUNCTION acode_views.at(us bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION acode_views.at(us bigint) TO acode_reader;


--
-- Name: COLUMN events.session_id; Type: ACL; Schema: acode; Owner: acode_owner
--

GRANT INSERT(session_id) ON TABLE acode.events TO acode_writer;


--
-- Name: COLUMN events.seq; Type: ACL; Schema: acode; Owner: acode_owner
--

GRANT INSERT(seq) ON TABLE acode.events TO acode_writer;


--
-- Name: COLUMN events.id; Type: ACL; Schema: acode; Owner: acode_owner
--

GRANT INSERT(id) ON TABLE acode.events TO acode_writer;


--
-- Name: COLUMN events.time_us; Type: ACL; Schema: acode; Owner: acode_owner
--

GRANT INSERT(time_us) ON TABLE acode.events TO acode_writer;


--
-- Name: COLUMN events.epoch; Type: ACL; Schema: acode; Owner: acode_owner
--

GRANT INSERT(epoch) ON TABLE acode.events TO acode_writer;


--
-- Name: COLUMN events.type; Type: ACL; Schema: acode; Owner: acode_owner
--

GRANT INSERT(type) ON TABLE acode.events TO acode_writer;


--
-- Name: COLUMN events.actor; Type: ACL; Schema: acode; Owner: acode_owner
--

GRANT INSERT(actor) ON TABLE acode.events TO acode_writer;


--
-- Name: COLUMN events.device; Type: ACL; Schema: acode; Owner: acode_owner
--

GRANT INSERT(device) ON TABLE acode.events TO acode_writer;


--
-- Name: COLUMN events.prev; Type: ACL; Schema: acode; Owner: acode_owner
--

GRANT INSERT(prev) ON TABLE acode.events TO acode_writer;


--
-- Name: COLUMN events.hash; Type: ACL; Schema: acode; Owner: acode_owner
--

GRANT INSERT(hash) ON TABLE acode.events TO acode_writer;


--
-- Name: COLUMN events.payload; Type: ACL; Schema: acode; Owner: acode_owner
--

GRANT INSERT(payload) ON TABLE acode.events TO acode_writer;


--
-- Name: TABLE approvals; Type: ACL; Schema: acode_views; Owner: acode_owner
--

GRANT SELECT ON TABLE acode_views.approvals TO acode_reader;


--
-- Name: TABLE blob_chunks; Type: ACL; Schema: acode_views; Owner: acode_owner
--

GRANT SELECT ON TABLE acode_views.blob_chunks TO acode_reader;


--
-- Name: TABLE blobs; Type: ACL; Schema: acode_views; Owner: acode_owner
--

GRANT SELECT ON TABLE acode_views.blobs TO acode_reader;


--
-- Name: TABLE checkpoints; Type: ACL; Schema: acode_views; Owner: acode_owner
--

GRANT SELECT ON TABLE acode_views.checkpoints TO acode_reader;


--
-- Name: TABLE events; Type: ACL; Schema: acode_views; Owner: acode_owner
--

GRANT SELECT ON TABLE acode_views.events TO acode_reader;


--
-- Name: TABLE flags; Type: ACL; Schema: acode_views; Owner: acode_owner
--

GRANT SELECT ON TABLE acode_views.flags TO acode_reader;


--
-- Name: TABLE forks; Type: ACL; Schema: acode_views; Owner: acode_owner
--

GRANT SELECT ON TABLE acode_views.forks TO acode_reader;


--
-- Name: TABLE machines; Type: ACL; Schema: acode_views; Owner: acode_owner
--

GRANT SELECT ON TABLE acode_views.machines TO acode_reader;


--
-- Name: TABLE sessions; Type: ACL; Schema: acode_views; Owner: acode_owner
--

GRANT SELECT ON TABLE acode_views.sessions TO acode_reader;


--
-- Name: TABLE steps; Type: ACL; Schema: acode_views; Owner: acode_owner
--

GRANT SELECT ON TABLE acode_views.steps TO acode_reader;


--
-- Name: TABLE tasks; Type: ACL; Schema: acode_views; Owner: acode_owner
--

GRANT SELECT ON TABLE acode_views.tasks TO acode_reader;


--
-- Name: TABLE tool_calls; Type: ACL; Schema: acode_views; Owner: acode_owner
--

GRANT SELECT ON TABLE acode_views.tool_calls TO acode_reader;


--
-- PostgreSQL database dump complete
--