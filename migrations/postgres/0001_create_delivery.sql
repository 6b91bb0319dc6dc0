-- +goose Up
SET LOCAL ROLE acode_owner;

CREATE TABLE acode.meta (
    one            boolean PRIMARY KEY DEFAULT true CHECK (one),
    schema_version integer NOT NULL,
    oldest_client  integer NOT NULL, -- the lowest schema version that a client may have been built for
    retry_after_ms integer NOT NULL DEFAULT 0 CHECK (retry_after_ms BETWEEN 0 AND 3600000), -- asked of every client
    made_at        timestamptz NOT NULL DEFAULT now()
);
INSERT INTO acode.meta (schema_version, oldest_client) VALUES (1, 1);

-- A session's head. Under its lock (session_id, seq) is unique and the chain is whole. What
-- lies below first_seq was pruned; first_prev is the hash before it.
CREATE TABLE acode.heads (
    session_id    uuid PRIMARY KEY,
    owner         name   NOT NULL, -- the login role that delivered first; nobody else may go on
    device        text   NOT NULL CHECK (length(device) BETWEEN 1 AND 200),
    last_seq      bigint NOT NULL CHECK (last_seq >= 0),
    epoch         bigint NOT NULL CHECK (epoch >= 0),
    head          bytea  NOT NULL CHECK (octet_length(head) = 32),
    first_seq     bigint NOT NULL DEFAULT 1 CHECK (first_seq BETWEEN 1 AND last_seq + 1),
    first_prev    bytea  NOT NULL CHECK (octet_length(first_prev) = 32),
    verified_seq  bigint NOT NULL DEFAULT 0 CHECK (verified_seq BETWEEN 0 AND last_seq),
    verified_head bytea  NOT NULL CHECK (octet_length(verified_head) = 32),
    broken_seq    bigint, -- the first event whose hash is not what its content gives
    projected_seq bigint NOT NULL DEFAULT 0 CHECK (projected_seq BETWEEN 0 AND last_seq),
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70);
CREATE INDEX heads_of_device ON acode.heads (owner, device, session_id);
CREATE INDEX heads_to_verify ON acode.heads (owner, session_id) WHERE verified_seq < last_seq AND broken_seq IS NULL;

-- Partitioned by the month of receipt, so that pruning drops tables. received_at is a default
-- that no device may set. That it is part of the key lets rows which a trigger will refuse, or
-- which come a second time, block nobody: the head says what is unique. prev is given for the
-- first event of a copied delivery only; elsewhere it is the hash of the row before.
CREATE TABLE acode.events (
    session_id  uuid   NOT NULL,
    seq         bigint NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    id          uuid   NOT NULL,
    time_us     bigint NOT NULL,
    epoch       bigint NOT NULL,
    type        text   NOT NULL CHECK (length(type) BETWEEN 1 AND 100),
    actor       text   NOT NULL CHECK (length(actor) BETWEEN 1 AND 200),
    device      text   NOT NULL,
    prev        bytea,
    hash        bytea  NOT NULL CHECK (octet_length(hash) = 32),
    payload     bytea  NOT NULL CHECK (octet_length(payload) <= 16384),
    PRIMARY KEY (session_id, seq, received_at)
) PARTITION BY RANGE (received_at);

-- How many events each store has delivered, so that hello need not look at every session. A
-- store's sessions are spread over shards, so that lanes do not wait for one another.
CREATE TABLE acode.counts (
    owner  name     NOT NULL,
    device text     NOT NULL,
    shard  smallint NOT NULL,
    events bigint   NOT NULL,
    PRIMARY KEY (owner, device, shard)
) WITH (fillfactor = 50);

-- Events that do not extend their session: of a stale epoch, or of another chain. Never
-- dropped, never merged.
CREATE TABLE acode.forks (
    fork        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id  uuid   NOT NULL,
    seq         bigint NOT NULL,
    reason      text   NOT NULL CHECK (reason IN ('fenced', 'forked')),
    owner       name   NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    id          uuid   NOT NULL,
    time_us     bigint NOT NULL,
    epoch       bigint NOT NULL,
    type        text   NOT NULL,
    actor       text   NOT NULL,
    device      text   NOT NULL,
    prev        bytea  NOT NULL,
    hash        bytea  NOT NULL,
    payload     bytea  NOT NULL,
    UNIQUE (session_id, hash)
);

-- +goose StatementBegin
-- zero_hash stands before the first event of a session.
CREATE FUNCTION acode.zero_hash() RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN decode('0000000000000000000000000000000000000000000000000000000000000000', 'hex');
-- +goose StatementEnd

-- +goose StatementBegin
-- chain_hash is the hash of an event after one whose hash was p_prev: the layout of
-- docs/format.md.
CREATE FUNCTION acode.chain_hash(p_prev bytea, p_id uuid, p_session uuid, p_seq bigint, p_time_us bigint,
    p_epoch bigint, p_type text, p_actor text, p_payload bytea) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE
RETURN sha256('\x61636f64652d6576656e742d763100'::bytea || p_prev || uuid_send(p_id)
    || int4send(36) || convert_to(p_session::text, 'UTF8')
    || int8send(p_seq) || int8send(p_time_us) || int8send(p_epoch)
    || int4send(octet_length(convert_to(p_type, 'UTF8'))) || convert_to(p_type, 'UTF8')
    || int4send(octet_length(convert_to(p_actor, 'UTF8'))) || convert_to(p_actor, 'UTF8')
    || int4send(octet_length(p_payload)) || p_payload);
-- +goose StatementEnd

-- +goose StatementBegin
-- maintain makes the partitions of this month and the twelve after it. ATTACH does not stop
-- readers and writers as CREATE ... PARTITION OF would.
CREATE FUNCTION acode.maintain() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, acode, pg_temp SET lock_timeout = '2s' AS $$
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
-- +goose StatementEnd
SELECT acode.maintain();

-- +goose StatementBegin
-- be_durable raises a default that would acknowledge what a crash can take back. A default
-- that asks for more than 'on' stays.
CREATE FUNCTION acode.be_durable() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF pg_catalog.current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM pg_catalog.set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- lock_head locks the head of a session and makes it where p_make says so. A session of
-- another login role is refused.
CREATE FUNCTION acode.lock_head(p_session uuid, p_device text, p_make boolean) RETURNS acode.heads
LANGUAGE plpgsql SET search_path = pg_catalog, acode, pg_temp AS $$
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
-- +goose StatementEnd

-- +goose StatementBegin
-- extend moves a session's mark, which is locked, and counts.
CREATE FUNCTION acode.extend(h acode.heads, p_device text, p_last bigint, p_epoch bigint, p_head bytea) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, acode, pg_temp AS $$
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
-- +goose StatementEnd

-- +goose StatementBegin
-- ingest takes a delivery: contiguous events of one session from p_first on, the first of
-- which follows p_prev. What is there already is compared and passed over, what is new extends
-- the chain, what differs is filed as a fork, and so is what follows that. No events asks for
-- the mark.
CREATE FUNCTION acode.ingest(p_session uuid, p_device text, p_first bigint, p_prev bytea, p_ids uuid[], p_times bigint[],
    p_types text[], p_actors text[], p_epochs bigint[], p_hashes bytea[], p_payloads bytea[])
RETURNS TABLE (seq bigint, head bytea, epoch bigint, verified bigint, verdict text, inserted integer, duplicate integer,
    server_us bigint, retry_after_ms integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
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
-- +goose StatementEnd

-- +goose StatementBegin
-- first_difference gives the first of the delivered events that is not what the server has or
-- can take, counted from 1, or null. Pruned ones are taken as equal: the head's own hash, which
-- covers them, is compared.
CREATE FUNCTION acode.first_difference(h acode.heads, p_first bigint, p_prev bytea, p_hashes bytea[], p_epochs bigint[], p_known integer)
RETURNS integer LANGUAGE plpgsql SET search_path = pg_catalog, acode, pg_temp AS $$
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
-- +goose StatementEnd

-- +goose StatementBegin
-- check_epochs refuses new events whose epochs fall, or rise elsewhere than at an acquisition
-- by one.
CREATE FUNCTION acode.check_epochs(p_epoch bigint, p_types text[], p_epochs bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, acode, pg_temp AS $$
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
-- +goose StatementEnd

-- +goose StatementBegin
-- hello says which database this is and how many events of the device it has.
CREATE FUNCTION acode.hello(p_device text)
RETURNS TABLE (system text, database text, schema_version integer, oldest_client integer, server_us bigint, events bigint, read_only boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
    SELECT s.system_identifier::text, current_database()::text, m.schema_version, m.oldest_client,
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
        coalesce((SELECT sum(c.events) FROM counts c WHERE c.owner = session_user AND c.device = p_device), 0)::bigint,
        pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean
    FROM pg_control_system() s, meta m
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- marks lists how far the sessions of a device are, by id, above p_after.
CREATE FUNCTION acode.marks(p_device text, p_after uuid, p_limit integer)
RETURNS TABLE (session_id uuid, seq bigint, head bytea, epoch bigint, verified bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
    SELECT h.session_id, h.last_seq, h.head, h.epoch, h.verified_seq FROM heads h
    WHERE h.owner = session_user AND h.device = p_device AND h.session_id > p_after
    ORDER BY h.session_id LIMIT least(greatest(p_limit, 1), 10000)
$$;
-- +goose StatementEnd

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA acode FROM PUBLIC;
GRANT USAGE ON SCHEMA acode TO acode_writer;
GRANT EXECUTE ON FUNCTION acode.hello(text), acode.marks(text, uuid, integer), acode.maintain(),
    acode.ingest(uuid, text, bigint, bytea, uuid[], bigint[], text[], text[], bigint[], bytea[], bytea[]) TO acode_writer;
RESET ROLE;
