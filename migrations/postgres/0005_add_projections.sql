-- +goose Up
SET LOCAL ROLE acode_owner;

-- What the events say, in columns. Everything here can be made again from events; nothing in an
-- event's content can stop it: what PostgreSQL cannot hold is noted in flags.
CREATE TABLE acode.p_sessions (
    session_id uuid PRIMARY KEY,
    short_id   text,
    task       text,
    workspace  text,
    on_failure text,
    program    text,
    forked_from text, -- the session that this one goes on from, after this event of it
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

-- One attempt of one operation.
CREATE TABLE acode.p_tool_calls (
    session_id  uuid NOT NULL,
    task        text NOT NULL,
    step        text NOT NULL,
    operation   text NOT NULL,
    attempt     bigint NOT NULL,
    key         text,
    kind        text,
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
    PRIMARY KEY (session_id, task, step, operation, attempt)
);

CREATE TABLE acode.p_checkpoints (
    session_id uuid   NOT NULL,
    seq        bigint NOT NULL,
    time_us    bigint NOT NULL,
    epoch      bigint NOT NULL,
    task       text,
    step       text,
    why        text, -- of one that no receipt brought
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
    answer     text, -- null: none yet
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

CREATE INDEX heads_to_project ON acode.heads (owner, session_id) WHERE projected_seq < last_seq;

CREATE TYPE acode.content AS (j jsonb, flag text);

-- +goose StatementBegin
-- read_content reads a payload. Characters that PostgreSQL has no place for are replaced; what
-- still cannot be read gives an empty object. Both are flagged.
CREATE FUNCTION acode.read_content(p bytea) RETURNS acode.content LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, acode, pg_temp AS $$
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
-- +goose StatementEnd

-- +goose StatementBegin
-- as_number gives a whole number, or null for what is none or too large.
CREATE FUNCTION acode.as_number(t text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN t ~ '^-?[0-9]{1,18}$' THEN t::bigint END;
-- +goose StatementEnd

-- +goose StatementBegin
-- as_name gives what may be part of a key: names of tasks and steps are at most 64 long.
CREATE FUNCTION acode.as_name(t text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN left(coalesce(t, ''), 64);
-- +goose StatementEnd

-- +goose StatementBegin
-- project_call notes what an event says about an attempt of a step, and about the step.
CREATE FUNCTION acode.project_call(p_session uuid, e record, j jsonb, p_status text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, acode, pg_temp AS $$
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
-- +goose StatementEnd

-- +goose StatementBegin
-- project_approval notes a request or an answer; an answer belongs to the last request of its
-- step with its digest.
CREATE FUNCTION acode.project_approval(p_session uuid, e record, j jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, acode, pg_temp AS $$
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
-- +goose StatementEnd

-- +goose StatementBegin
-- project_events projects a session's events above p_after up to p_to.
CREATE FUNCTION acode.project_events(h acode.heads, p_after bigint, p_to bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, acode, pg_temp AS $$
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
-- +goose StatementEnd

-- +goose StatementBegin
-- project projects at most p_limit of the caller's events, and says whether there is more. A
-- piece that fails is done again event by event, and the event that fails is flagged.
CREATE FUNCTION acode.project(p_limit integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
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
-- +goose StatementEnd

REVOKE ALL ON FUNCTION acode.read_content(bytea), acode.as_number(text), acode.as_name(text), acode.project_call(uuid, record, jsonb, text),
    acode.project_approval(uuid, record, jsonb), acode.project_events(acode.heads, bigint, bigint), acode.project(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION acode.project(integer) TO acode_writer;

-- +goose StatementBegin
-- at makes a time of microseconds since 1970.
CREATE FUNCTION acode_views.at(us bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN timestamptz '1970-01-01 00:00:00+00' + us * interval '1 microsecond';
-- +goose StatementEnd

CREATE VIEW acode_views.sessions AS
SELECT h.session_id, p.short_id, h.owner, h.device, p.host, p.pid, p.task, p.workspace, p.state, p.reason, p.detail, p.on_failure, p.program, p.forked_from, p.forked_seq,
    p.tasks, p.steps, (SELECT count(*) FROM acode.p_steps s WHERE s.session_id = h.session_id AND s.status = 'completed') AS steps_completed,
    h.epoch, acode_views.at(p.created_us) AS created_at, acode_views.at(p.last_us) AS last_event_at, h.updated_at AS received_at,
    h.last_seq, h.first_seq, h.verified_seq, h.projected_seq, h.broken_seq, encode(h.head, 'hex') AS head
FROM acode.heads h LEFT JOIN acode.p_sessions p USING (session_id);

CREATE VIEW acode_views.steps AS
SELECT s.session_id, s.task, s.step, s.kind, s.status, s.attempt, acode_views.at(s.started_us) AS started_at, acode_views.at(s.ended_us) AS ended_at,
    s.start_seq, s.last_seq, s.code, s.message
FROM acode.p_steps s;

-- A task is as far as its steps that were begun say; how many it has in all is in the plan.
CREATE VIEW acode_views.tasks AS
SELECT s.session_id, s.task, count(*) AS steps_begun, count(*) FILTER (WHERE s.status = 'completed') AS steps_completed,
    CASE WHEN bool_or(s.status = 'uncertain') THEN 'uncertain' WHEN bool_or(s.status = 'failed') THEN 'failed'
        WHEN bool_or(s.status = 'in_progress') THEN 'in_progress' ELSE 'completed' END AS status,
    acode_views.at(min(s.started_us)) AS started_at, acode_views.at(max(s.ended_us)) AS ended_at, min(s.start_seq) AS start_seq, max(s.last_seq) AS last_seq
FROM acode.p_steps s GROUP BY s.session_id, s.task;

CREATE VIEW acode_views.tool_calls AS
SELECT c.session_id, c.task, c.step, c.operation, c.attempt, c.key, c.kind, c.status, c.by, acode_views.at(c.started_us) AS started_at,
    acode_views.at(c.ended_us) AS ended_at, c.duration_us, c.exit, c.signal, c.timed_out, c.stdout_bytes, c.stderr_bytes, c.code, c.message, c.start_seq, c.last_seq
FROM acode.p_tool_calls c;

CREATE VIEW acode_views.checkpoints AS
SELECT k.session_id, k.seq, acode_views.at(k.time_us) AS taken_at, k.epoch, k.task, k.step, k.why, encode(k.hash, 'hex') AS hash
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

GRANT USAGE ON SCHEMA acode_views TO acode_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA acode_views TO acode_reader;
REVOKE ALL ON FUNCTION acode_views.at(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION acode_views.at(bigint) TO acode_reader;

UPDATE acode.meta SET schema_version = 5;
RESET ROLE;
