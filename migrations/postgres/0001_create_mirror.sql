-- +goose Up
SET LOCAL ROLE acode_owner;

CREATE TABLE acode.meta (
    one            boolean PRIMARY KEY DEFAULT true CHECK (one),
    schema_version integer NOT NULL,
    oldest_client  integer NOT NULL, -- the lowest schema version of clients that are accepted
    made_at        timestamptz NOT NULL DEFAULT now()
);
INSERT INTO acode.meta (schema_version, oldest_client) VALUES (1, 1);

-- The head of a session. Under its lock (session_id, seq) is unique and the chain has
-- no gap. Events below first_seq were pruned; first_prev is the hash before first_seq.
CREATE TABLE acode.heads (
    session_id    uuid PRIMARY KEY,
    owner         name   NOT NULL, -- the login role that delivered first; only this role may continue
    device        text   NOT NULL CHECK (length(device) BETWEEN 1 AND 200),
    last_seq      bigint NOT NULL CHECK (last_seq >= 0),
    epoch         bigint NOT NULL CHECK (epoch >= 0),
    head          bytea  NOT NULL CHECK (octet_length(head) = 32),
    first_seq     bigint NOT NULL DEFAULT 1 CHECK (first_seq BETWEEN 1 AND last_seq + 1),
    first_prev    bytea  NOT NULL CHECK (octet_length(first_prev) = 32),
    verified_seq  bigint NOT NULL DEFAULT 0 CHECK (verified_seq BETWEEN 0 AND last_seq),
    verified_head bytea  NOT NULL CHECK (octet_length(verified_head) = 32),
    broken_seq    bigint, -- the first event whose hash does not match its content
    projected_seq bigint NOT NULL DEFAULT 0 CHECK (projected_seq BETWEEN 0 AND last_seq),
    unknown_seq   bigint, -- the first event whose type the projection functions did not know
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70);
CREATE INDEX heads_of_device ON acode.heads (owner, device, session_id);
CREATE INDEX heads_to_project ON acode.heads (owner, session_id) WHERE projected_seq < last_seq;
CREATE INDEX heads_to_verify ON acode.heads (owner, session_id) WHERE verified_seq < last_seq AND broken_seq IS NULL;

-- Partitioned by the month of receipt, so that pruning drops tables. received_at is a
-- default that no device may set. It is part of the key, so that rows which a trigger
-- will refuse, or which come a second time, do not block others. The head says which
-- events are unique.
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
    hash        bytea  NOT NULL CHECK (octet_length(hash) = 32),
    payload     bytea  NOT NULL CHECK (octet_length(payload) <= 16384),
    PRIMARY KEY (session_id, seq, received_at)
) PARTITION BY RANGE (received_at);

-- The number of events that each store has delivered, so that hello need not read every
-- session. The sessions of a store are spread over shards, so that lanes do not wait
-- for one another.
CREATE TABLE acode.counts (
    owner  name     NOT NULL,
    device text     NOT NULL,
    shard  smallint NOT NULL,
    events bigint   NOT NULL,
    PRIMARY KEY (owner, device, shard)
) WITH (fillfactor = 50);

-- Events that do not extend their session, because they have a stale epoch or belong to
-- another chain. They are never dropped and never merged.
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
-- zero_hash is the hash before the first event of a session.
CREATE FUNCTION acode.zero_hash() RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN decode('0000000000000000000000000000000000000000000000000000000000000000', 'hex');
-- +goose StatementEnd

-- +goose StatementBegin
-- chain_hash returns the hash of an event that follows the hash p_prev. docs/format.md
-- has the layout.
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
-- maintain makes the partitions of this month and the next twelve. ATTACH does not
-- block readers and writers, as CREATE ... PARTITION OF would.
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
-- be_durable changes a default that would acknowledge events which a crash can lose. It
-- keeps a default that asks for more than 'on'.
CREATE FUNCTION acode.be_durable() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF pg_catalog.current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM pg_catalog.set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- lock_head locks the head of a session. It makes the head if p_make is true. It
-- refuses a session of another login role.
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
-- extend moves the mark of a session, whose head is locked, and counts the events.
CREATE FUNCTION acode.extend(h acode.heads, p_device text, p_last bigint, p_epoch bigint, p_head bytea) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, acode, pg_temp AS $$
DECLARE
    v_shard smallint := hashtext(h.session_id::text) & 15;
BEGIN
    UPDATE heads u SET last_seq = p_last, epoch = p_epoch, head = p_head, device = p_device, updated_at = now()
    WHERE u.session_id = h.session_id;
    IF h.device <> p_device THEN -- it continues from another store: all its events move
        UPDATE counts c SET events = c.events - h.last_seq WHERE c.owner = h.owner AND c.device = h.device AND c.shard = v_shard;
        h.last_seq := 0;
    END IF;
    INSERT INTO counts AS c (owner, device, shard, events) VALUES (h.owner, p_device, v_shard, p_last - h.last_seq)
    ON CONFLICT (owner, device, shard) DO UPDATE SET events = c.events + excluded.events;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- ingest takes a delivery: contiguous events of one session from p_first on. The first
-- of them follows p_prev. ingest compares events that are there already and skips them.
-- New events extend the chain. An event that differs is filed as a fork, with all
-- events after it. A delivery without events returns the mark.
--
-- New events are unnested column by column, in step. As a row source, the arrays would
-- be copied once more before the first row is inserted. The order of epochs is checked
-- only if there is more than one.
CREATE FUNCTION acode.ingest(p_session uuid, p_device text, p_first bigint, p_prev bytea, p_ids uuid[], p_times bigint[],
    p_types text[], p_actors text[], p_epochs bigint[], p_hashes bytea[], p_payloads bytea[])
RETURNS TABLE (seq bigint, head bytea, epoch bigint, verified bigint, verdict text, inserted integer, duplicate integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
#variable_conflict use_column
DECLARE
    n      integer := coalesce(cardinality(p_ids), 0);
    h      heads%ROWTYPE;
    known  integer := 0; -- the number of them at or below the mark
    bad    integer;      -- the first that differs from the server's, from 1
    beyond boolean;      -- it begins above the mark: a gap, or more of a fork
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
    RETURN NEXT;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- first_difference returns the first of the delivered events that differs from the
-- server's event or that the server cannot take, counted from 1, or null. Pruned events
-- count as equal, because the head's own hash covers them and is compared.
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
-- check_epochs refuses new events if their epochs fall, or rise in any other way than
-- by one at an acquisition.
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
-- hello returns the identity of this database and the number of events that it has of
-- the device.
CREATE FUNCTION acode.hello(p_device text)
RETURNS TABLE (system text, database text, schema_version integer, oldest_client integer, events bigint, read_only boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
    SELECT s.system_identifier::text, current_database()::text, m.schema_version, m.oldest_client,
        coalesce((SELECT sum(c.events) FROM counts c WHERE c.owner = session_user AND c.device = p_device), 0)::bigint,
        pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean
    FROM pg_control_system() s, meta m
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- marks returns the marks of a device's sessions, ordered by id, above p_after.
CREATE FUNCTION acode.marks(p_device text, p_after uuid, p_limit integer)
RETURNS TABLE (session_id uuid, seq bigint, head bytea, epoch bigint, verified bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
    SELECT h.session_id, h.last_seq, h.head, h.epoch, h.verified_seq FROM heads h
    WHERE h.owner = session_user AND h.device = p_device AND h.session_id > p_after
    ORDER BY h.session_id LIMIT least(greatest(p_limit, 1), 10000)
$$;
-- +goose StatementEnd

-- Content that events name by its SHA-256 before compression. The server cannot
-- decompress it, so the sender is part of the key: no device can store its own content
-- under the hash of another one's.
CREATE TABLE acode.blobs (
    owner      name    NOT NULL,
    hash       bytea   NOT NULL CHECK (octet_length(hash) = 32),
    bytes      bigint  NOT NULL CHECK (bytes >= 0), -- before compression
    chunks     integer NOT NULL CHECK (chunks >= 1),
    stored     bigint  NOT NULL, -- compressed
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner, hash)
);

-- A blob without its row in blobs is still being sent. data is a part of one zstd
-- stream.
CREATE TABLE acode.blob_chunks (
    owner name    NOT NULL,
    hash  bytea   NOT NULL CHECK (octet_length(hash) = 32),
    n     integer NOT NULL CHECK (n BETWEEN 0 AND 1000000),
    sum   bytea   NOT NULL CHECK (octet_length(sum) = 32),
    data  bytea   NOT NULL CHECK (octet_length(data) <= 1048576),
    PRIMARY KEY (owner, hash, n)
);
ALTER TABLE acode.blob_chunks ALTER COLUMN data SET STORAGE EXTERNAL;

-- +goose StatementBegin
-- missing_blobs returns the hashes whose content the caller has not sent completely.
CREATE FUNCTION acode.missing_blobs(p_hashes bytea[]) RETURNS TABLE (hash bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
    SELECT DISTINCT u.hash FROM unnest(p_hashes) u (hash)
    WHERE NOT EXISTS (SELECT 1 FROM blobs b WHERE b.owner = session_user AND b.hash = u.hash)
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- blob_sums returns the chunks that are there of a blob that is still being sent.
CREATE FUNCTION acode.blob_sums(p_hash bytea) RETURNS TABLE (n integer, sum bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
    SELECT c.n, c.sum FROM blob_chunks c WHERE c.owner = session_user AND c.hash = p_hash ORDER BY c.n
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- put_chunk stores a chunk whose content has the SHA-256 p_sum. It does not change the
-- chunks of a complete blob.
CREATE FUNCTION acode.put_chunk(p_hash bytea, p_n integer, p_sum bytea, p_data bytea) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
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
-- +goose StatementEnd

-- +goose StatementBegin
-- finish_blob declares a blob complete. The blob has p_chunks chunks, and their sums
-- together have the SHA-256 p_sums. A second call changes nothing.
CREATE FUNCTION acode.finish_blob(p_hash bytea, p_bytes bigint, p_chunks integer, p_sums bytea) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
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
-- +goose StatementEnd

-- +goose StatementBegin
-- check_chain recomputes the hashes of a session's events above p_after, whose hash was
-- p_prev, up to p_to. It returns the number of events, the hash at p_to and the first
-- place that is wrong: missing, duplicate or changed. An event whose content a client
-- withheld keeps its original hash, which cannot be recomputed.
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
-- check_session compares everything that is kept of a session with its head. wrong is
-- null if nothing is wrong.
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
-- verify_chains recomputes the hashes of at most p_limit of the caller's events that
-- were delivered since the last call. It moves the verified marks and returns whether
-- there is more. It notes a wrong chain and continues with the others. It also makes
-- partitions, because its caller has time.
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
-- prune_month drops the events that were received in a month. The chains then begin
-- above them, after the hash that is kept. A month stays if it is not over, or if it has
-- events that are not verified and projected yet. Events that follow one of an unknown
-- type will be projected again.
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
        WHERE e.seq > h.verified_seq OR e.seq > h.projected_seq OR e.seq >= h.unknown_seq)', name) INTO busy;
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

-- The events in columns. Everything here can be made again from events. The content of
-- an event cannot stop this: flags notes content that PostgreSQL cannot hold.
CREATE TABLE acode.p_sessions (
    session_id uuid PRIMARY KEY,
    short_id   text,
    task       text,
    workspace  text,
    on_failure text,
    program    text,
    forked_from text, -- the session that this one continues, after this event of it
    forked_seq bigint,
    tasks      bigint,
    steps      bigint,
    state      text,
    reason     text,
    detail     text,
    host       text,
    pid        bigint,
    epoch      bigint NOT NULL DEFAULT 0,
    created_us bigint,
    last_us    bigint
);

CREATE TABLE acode.p_steps (
    session_id uuid NOT NULL,
    task       text NOT NULL,
    step       text NOT NULL,
    kind       text,
    status     text NOT NULL,
    attempt    bigint,
    start_seq  bigint,
    last_seq   bigint NOT NULL,
    started_us bigint,
    ended_us   bigint,
    code       text,
    message    text,
    PRIMARY KEY (session_id, task, step)
);

-- One attempt of one operation. The operation main is the step itself.
CREATE TABLE acode.p_tool_calls (
    session_id  uuid NOT NULL,
    task        text NOT NULL,
    step        text NOT NULL,
    operation   text NOT NULL,
    attempt     bigint NOT NULL,
    key         text,
    kind        text,
    tool        text, -- the name under which an agent called it
    label       text,
    status      text NOT NULL,
    by          text,
    start_seq   bigint,
    last_seq    bigint NOT NULL,
    started_us  bigint,
    ended_us    bigint,
    exit        bigint,
    signal      text,
    timed_out   boolean,
    duration_us bigint,
    stdout_bytes bigint,
    stderr_bytes bigint,
    code        text,
    message     text,
    settled     boolean NOT NULL DEFAULT false, -- the agent has surely seen the answer
    PRIMARY KEY (session_id, task, step, operation, attempt)
);

CREATE TABLE acode.p_checkpoints (
    session_id uuid   NOT NULL,
    seq        bigint NOT NULL,
    time_us    bigint NOT NULL,
    epoch      bigint NOT NULL,
    task       text,
    step       text,
    op         text,
    why        text, -- the reason of a checkpoint without a receipt
    hash       bytea  NOT NULL,
    PRIMARY KEY (session_id, seq)
);

CREATE TABLE acode.p_approvals (
    session_id uuid   NOT NULL,
    seq        bigint NOT NULL, -- of the request
    task       text,
    step       text,
    question   text,
    digest     text,
    asked_us   bigint NOT NULL,
    answer     text, -- null: no answer yet
    answer_seq bigint,
    answered_us bigint,
    by         text,
    reason     text,
    PRIMARY KEY (session_id, seq)
);

CREATE TABLE acode.p_machines (
    owner     name NOT NULL,
    device    text NOT NULL,
    host      text,
    workspace text,
    pid       bigint,
    last_us   bigint NOT NULL,
    PRIMARY KEY (owner, device)
);

CREATE TABLE acode.p_flags (
    session_id uuid   NOT NULL,
    seq        bigint NOT NULL,
    flag       text   NOT NULL, -- in_blob, withheld, replaced, no_object, unreadable or failed, with an SQLSTATE
    PRIMARY KEY (session_id, seq)
);

CREATE TYPE acode.content AS (j jsonb, flag text);

-- +goose StatementBegin
-- list_sessions returns the caller's sessions of every device below p_before, newest
-- first, because ids begin with the time. Values that the typed tables do not have yet
-- are null, or as of projected_seq.
CREATE FUNCTION acode.list_sessions(p_before uuid, p_limit integer)
RETURNS TABLE (session_id uuid, short_id text, device text, host text, task text, workspace text, state text, reason text,
    tasks bigint, steps bigint, steps_completed bigint, epoch bigint, last_seq bigint, projected_seq bigint,
    created_us bigint, last_us bigint, received_us bigint, forked boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
    SELECT h.session_id, coalesce(p.short_id, ''), h.device, coalesce(p.host, ''), coalesce(p.task, ''), coalesce(p.workspace, ''),
        coalesce(p.state, ''), coalesce(p.reason, ''), coalesce(p.tasks, 0), coalesce(p.steps, 0),
        (SELECT count(*) FROM p_steps s WHERE s.session_id = h.session_id AND s.status = 'completed'),
        h.epoch, h.last_seq, h.projected_seq, coalesce(p.created_us, 0), coalesce(p.last_us, 0), (extract(epoch FROM h.updated_at) * 1000000)::bigint,
        EXISTS (SELECT FROM forks f WHERE f.session_id = h.session_id)
    FROM heads h LEFT JOIN p_sessions p ON p.session_id = h.session_id
    WHERE h.owner = session_user AND h.session_id < p_before
    ORDER BY h.session_id DESC LIMIT least(greatest(p_limit, 1), 1000)
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- at converts microseconds since 1970 to a time.
CREATE FUNCTION acode_views.at(us bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN timestamptz '1970-01-01 00:00:00+00' + us * interval '1 microsecond';
-- +goose StatementEnd

CREATE VIEW acode_views.sessions AS
SELECT h.session_id, p.short_id, h.owner, h.device, p.host, p.pid, p.task, p.workspace, p.state, p.reason, p.detail, p.on_failure, p.program, p.forked_from, p.forked_seq,
    p.tasks, p.steps, (SELECT count(*) FROM acode.p_steps s WHERE s.session_id = h.session_id AND s.status = 'completed') AS steps_completed,
    h.epoch, acode_views.at(p.created_us) AS created_at, acode_views.at(p.last_us) AS last_event_at, h.updated_at AS received_at,
    h.last_seq, h.first_seq, h.verified_seq, h.projected_seq, h.unknown_seq, h.broken_seq, encode(h.head, 'hex') AS head
FROM acode.heads h LEFT JOIN acode.p_sessions p USING (session_id);

CREATE VIEW acode_views.steps AS
SELECT s.session_id, s.task, s.step, s.kind, s.status, s.attempt, acode_views.at(s.started_us) AS started_at, acode_views.at(s.ended_us) AS ended_at,
    s.start_seq, s.last_seq, s.code, s.message
FROM acode.p_steps s;

-- The state of a task comes from its steps that have begun. The plan has the number of
-- all its steps.
CREATE VIEW acode_views.tasks AS
SELECT s.session_id, s.task, count(*) AS steps_begun, count(*) FILTER (WHERE s.status = 'completed') AS steps_completed,
    CASE WHEN bool_or(s.status = 'uncertain') THEN 'uncertain' WHEN bool_or(s.status = 'failed') THEN 'failed'
        WHEN bool_or(s.status = 'in_progress') THEN 'in_progress' ELSE 'completed' END AS status,
    acode_views.at(min(s.started_us)) AS started_at, acode_views.at(max(s.ended_us)) AS ended_at, min(s.start_seq) AS start_seq, max(s.last_seq) AS last_seq
FROM acode.p_steps s GROUP BY s.session_id, s.task;

CREATE VIEW acode_views.tool_calls AS
SELECT c.session_id, c.task, c.step, c.operation, c.attempt, c.key, c.kind, c.tool, c.label, c.status, c.by, acode_views.at(c.started_us) AS started_at,
    acode_views.at(c.ended_us) AS ended_at, c.duration_us, c.exit, c.signal, c.timed_out, c.stdout_bytes, c.stderr_bytes, c.code, c.message, c.start_seq, c.last_seq
FROM acode.p_tool_calls c;

-- The operations of steps that have many, each with its last attempt.
CREATE VIEW acode_views.operations AS
SELECT DISTINCT ON (c.session_id, c.task, c.step, c.operation) c.session_id, c.task, c.step, c.operation AS op, c.tool, c.label, c.kind, c.status, c.attempt,
    acode_views.at(c.started_us) AS started_at, acode_views.at(c.ended_us) AS ended_at, c.code, c.message, c.settled, c.start_seq, c.last_seq
FROM acode.p_tool_calls c WHERE c.operation <> 'main'
ORDER BY c.session_id, c.task, c.step, c.operation, c.attempt DESC;

CREATE VIEW acode_views.checkpoints AS
SELECT k.session_id, k.seq, acode_views.at(k.time_us) AS taken_at, k.epoch, k.task, k.step, k.op, k.why, encode(k.hash, 'hex') AS hash
FROM acode.p_checkpoints k;

CREATE VIEW acode_views.approvals AS
SELECT a.session_id, a.seq, a.task, a.step, a.question, a.digest, acode_views.at(a.asked_us) AS asked_at, a.answer, a.answer_seq,
    acode_views.at(a.answered_us) AS answered_at, a.by, a.reason
FROM acode.p_approvals a;

CREATE VIEW acode_views.machines AS
SELECT h.owner, h.device, m.host, m.workspace, m.pid, acode_views.at(m.last_us) AS last_execution_at,
    h.sessions, h.events, h.received_at, clock_timestamp() - h.received_at AS quiet
FROM (SELECT owner, device, count(*) AS sessions, sum(last_seq)::bigint AS events, max(updated_at) AS received_at FROM acode.heads GROUP BY owner, device) h
LEFT JOIN acode.p_machines m USING (owner, device);

CREATE VIEW acode_views.forks AS
SELECT f.fork, f.session_id, f.seq, f.reason, f.owner, f.device, f.received_at, f.id, acode_views.at(f.time_us) AS happened_at, f.epoch, f.type, f.actor,
    encode(f.prev, 'hex') AS prev, encode(f.hash, 'hex') AS hash, f.payload
FROM acode.forks f;

CREATE VIEW acode_views.events AS
SELECT e.session_id, e.seq, e.id, acode_views.at(e.time_us) AS happened_at, e.received_at, e.type, e.actor, e.epoch, e.device, encode(e.hash, 'hex') AS hash, e.payload
FROM acode.events e;

CREATE VIEW acode_views.flags AS SELECT g.session_id, g.seq, g.flag FROM acode.p_flags g;
CREATE VIEW acode_views.blobs AS
SELECT b.owner, encode(b.hash, 'hex') AS hash, b.bytes, b.stored, b.chunks, b.created_at FROM acode.blobs b;
CREATE VIEW acode_views.blob_chunks AS
SELECT k.owner, encode(k.hash, 'hex') AS hash, k.n, k.data FROM acode.blob_chunks k JOIN acode.blobs b ON b.owner = k.owner AND b.hash = k.hash;

-- The rights of a device's role (S4), and of a reader's role.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA acode, acode_views FROM PUBLIC;
GRANT USAGE ON SCHEMA acode TO acode_writer;
GRANT EXECUTE ON FUNCTION acode.hello(text), acode.marks(text, uuid, integer), acode.maintain(),
    acode.ingest(uuid, text, bigint, bytea, uuid[], bigint[], text[], text[], bigint[], bytea[], bytea[]),
    acode.missing_blobs(bytea[]), acode.blob_sums(bytea), acode.put_chunk(bytea, integer, bytea, bytea), acode.finish_blob(bytea, bigint, integer, bytea),
    acode.verify_chains(integer), acode.list_sessions(uuid, integer) TO acode_writer;
GRANT USAGE ON SCHEMA acode_views TO acode_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA acode_views TO acode_reader;
GRANT EXECUTE ON FUNCTION acode_views.at(bigint) TO acode_reader;
RESET ROLE;
