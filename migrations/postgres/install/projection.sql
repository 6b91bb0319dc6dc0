-- The functions that put events into the typed tables. Every migration installs them
-- again, in one transaction, so that they know the event types of the program that
-- migrates. Every statement may be repeated. The lock waits until no call projects.
SET LOCAL ROLE acode_owner;
SELECT pg_advisory_xact_lock(hashtextextended('acode.projection', 0));

-- read_content reads a payload. It replaces characters that PostgreSQL cannot hold. It
-- returns an empty object for content that still cannot be read. Both are flagged.
CREATE OR REPLACE FUNCTION acode.read_content(p bytea) RETURNS acode.content LANGUAGE plpgsql STABLE
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

-- as_number returns a whole number, or null for a value that is not one or is too
-- large.
CREATE OR REPLACE FUNCTION acode.as_number(t text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN t ~ '^-?[0-9]{1,18}$' THEN t::bigint END;

-- as_name returns a text that may be part of a key. Names of tasks and steps are at
-- most 64 long.
CREATE OR REPLACE FUNCTION acode.as_name(t text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN left(coalesce(t, ''), 64);

-- call_status returns the status of a step or an operation after an event of this type.
CREATE OR REPLACE FUNCTION acode.call_status(p_type text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN p_type LIKE '%Started' OR p_type = 'ModelAsked' THEN 'in_progress'
    WHEN p_type LIKE '%Completed' OR p_type = 'ModelAnswered' THEN 'completed'
    WHEN p_type LIKE '%Failed' THEN 'failed' ELSE 'uncertain' END;

-- project_call notes what an event says about an attempt of a step or of an operation of
-- it, and about the step. A command can end before its receipt, and its clock may have
-- been set back since it began.
CREATE OR REPLACE FUNCTION acode.project_call(p_session uuid, e record, j jsonb, p_op text, p_status text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, acode, pg_temp AS $$
DECLARE
    v_task    text := as_name(j ->> 'task');
    v_step    text := as_name(j ->> 'step');
    v_attempt bigint := coalesce(as_number(j ->> 'attempt'), 0);
    v_started boolean := p_status = 'in_progress';
    r         jsonb := coalesce(j -> 'command', '{}');
    v_ended   bigint := CASE WHEN NOT v_started THEN least(e.time_us, as_number(j ->> 'ended_us')) END;
BEGIN
    IF v_task = '' AND v_step = '' THEN
        RETURN; -- its content is not on this server
    END IF;
    INSERT INTO p_tool_calls AS c (session_id, task, step, operation, attempt, key, kind, tool, label, status, by, start_seq, last_seq, started_us, ended_us,
        exit, signal, timed_out, duration_us, stdout_bytes, stderr_bytes, code, message)
    VALUES (p_session, v_task, v_step, p_op, v_attempt, j ->> 'key', j ->> 'kind', j #>> '{call,tool}', j #>> '{call,label}', p_status, j ->> 'by',
        CASE WHEN v_started THEN e.seq END, e.seq, CASE WHEN v_started THEN e.time_us END, v_ended,
        as_number(r ->> 'exit'), r ->> 'signal', (r ->> 'timed_out') = 'true', as_number(r ->> 'duration_us'),
        as_number(r #>> '{stdout,bytes}'), as_number(r #>> '{stderr,bytes}'), j ->> 'code', coalesce(j ->> 'message', j ->> 'why'))
    ON CONFLICT (session_id, task, step, operation, attempt) DO UPDATE SET
        key = coalesce(excluded.key, c.key), kind = coalesce(excluded.kind, c.kind), tool = coalesce(excluded.tool, c.tool),
        label = coalesce(excluded.label, c.label), status = excluded.status,
        by = coalesce(excluded.by, c.by), start_seq = coalesce(excluded.start_seq, c.start_seq), last_seq = excluded.last_seq,
        started_us = coalesce(excluded.started_us, c.started_us), ended_us = CASE WHEN excluded.ended_us < c.started_us THEN e.time_us ELSE excluded.ended_us END,
        exit = excluded.exit, signal = excluded.signal, timed_out = excluded.timed_out, duration_us = excluded.duration_us,
        stdout_bytes = excluded.stdout_bytes, stderr_bytes = excluded.stderr_bytes, code = excluded.code, message = excluded.message;
    IF p_op <> 'main' THEN
        RETURN; -- the step has events of its own
    END IF;
    INSERT INTO p_steps AS s (session_id, task, step, kind, status, attempt, start_seq, last_seq, started_us, ended_us, code, message)
    VALUES (p_session, v_task, v_step, j ->> 'kind', p_status, v_attempt, CASE WHEN v_started THEN e.seq END, e.seq,
        CASE WHEN v_started THEN e.time_us END, v_ended, j ->> 'code', coalesce(j ->> 'message', j ->> 'why'))
    ON CONFLICT (session_id, task, step) DO UPDATE SET
        kind = coalesce(excluded.kind, s.kind), status = excluded.status, attempt = excluded.attempt,
        start_seq = coalesce(excluded.start_seq, s.start_seq), last_seq = excluded.last_seq,
        started_us = coalesce(excluded.started_us, s.started_us), ended_us = CASE WHEN excluded.ended_us < s.started_us THEN e.time_us ELSE excluded.ended_us END,
        code = excluded.code, message = excluded.message;
END
$$;

-- project_approval notes a request or an answer. An answer belongs to the last request
-- of its step with the same digest.
CREATE OR REPLACE FUNCTION acode.project_approval(p_session uuid, e record, j jsonb) RETURNS void
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

-- project_events projects a session's events above p_after up to p_to. It returns the seq
-- of the first of them whose type it does not know, or null.
CREATE OR REPLACE FUNCTION acode.project_events(h acode.heads, p_after bigint, p_to bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, acode, pg_temp AS $$
DECLARE
    e       record;
    c       content;
    v_epoch bigint;
    v_last  bigint;
    unknown bigint;
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
            PERFORM project_call(h.session_id, e, c.j, 'main', call_status(e.type));
        ELSIF e.type IN ('OperationStarted', 'OperationCompleted', 'OperationFailed', 'OperationUnknown') THEN
            PERFORM project_call(h.session_id, e, c.j, as_name(c.j ->> 'op'), call_status(e.type));
        ELSIF e.type IN ('ModelAsked', 'ModelAnswered', 'ModelFailed') THEN
            PERFORM project_call(h.session_id, e, c.j || jsonb_build_object('kind', 'model', 'call', jsonb_build_object('tool', c.j #>> '{model,name}')),
                as_name(c.j ->> 'op'), call_status(e.type));
        ELSIF e.type = 'OperationsSettled' THEN
            UPDATE p_tool_calls t SET settled = true WHERE t.session_id = h.session_id
                AND t.task = c.j ->> 'task' AND t.step = c.j ->> 'step' AND c.j -> 'ops' ? t.operation;
        ELSIF e.type IN ('ApprovalRequested', 'ApprovalGranted', 'ApprovalDenied') THEN
            PERFORM project_approval(h.session_id, e, c.j);
        ELSIF e.type = 'PlanAdopted' THEN
            UPDATE p_sessions s SET tasks = as_number(c.j ->> 'tasks'), steps = as_number(c.j ->> 'steps') WHERE s.session_id = h.session_id;
        ELSIF e.type NOT IN ('CheckpointCreated', 'ChangesAccepted', 'InputsChanged', 'PowersGranted', 'ChangesHeld', 'HeldDecided', 'MessageAdded', 'ContextReduced') THEN
            unknown := coalesce(unknown, e.seq);
        END IF;
        IF e.type IN ('StepCompleted', 'StepFailed', 'OperationCompleted', 'OperationFailed', 'ModelAnswered', 'ModelFailed',
            'CheckpointCreated') THEN
            INSERT INTO p_checkpoints (session_id, seq, time_us, epoch, task, step, op, why, hash)
            VALUES (h.session_id, e.seq, e.time_us, e.epoch, c.j ->> 'task', c.j ->> 'step', c.j ->> 'op', c.j ->> 'why', e.hash) ON CONFLICT DO NOTHING;
        END IF;
        v_epoch := e.epoch;
        v_last := e.time_us;
    END LOOP;
    UPDATE p_sessions s SET epoch = coalesce(v_epoch, s.epoch), last_us = coalesce(v_last, s.last_us) WHERE s.session_id = h.session_id;
    RETURN unknown;
END
$$;

-- project_head projects a session's events up to p_to. If they fail, it repeats them event
-- by event and flags the event that fails.
CREATE OR REPLACE FUNCTION acode.project_head(h acode.heads, p_to bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, acode, pg_temp AS $$
DECLARE
    unknown bigint;
BEGIN
    BEGIN
        unknown := project_events(h, h.projected_seq, p_to);
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        FOR s IN h.projected_seq + 1 .. p_to LOOP
            BEGIN
                unknown := least(unknown, project_events(h, s - 1, s));
            EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
                INSERT INTO p_flags (session_id, seq, flag) VALUES (h.session_id, s, 'failed ' || SQLSTATE)
                ON CONFLICT (session_id, seq) DO UPDATE SET flag = excluded.flag;
            END;
        END LOOP;
    END;
    UPDATE heads u SET projected_seq = p_to, unknown_seq = least(u.unknown_seq, unknown) WHERE u.session_id = h.session_id;
END
$$;

-- project projects at most p_limit of the caller's events, and returns whether there is
-- more.
CREATE OR REPLACE FUNCTION acode.project(p_limit integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
DECLARE
    h       heads%ROWTYPE;
    upto    bigint;
    open_to bigint := greatest(p_limit, 1);
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(hashtextextended('acode.projection', 0))
        OR NOT pg_try_advisory_xact_lock(hashtextextended('acode.project ' || session_user, 0)) THEN
        RETURN false; -- another call is projecting or installing; the heads stay free for deliveries
    END IF;
    FOR h IN SELECT * FROM heads o WHERE o.owner = session_user AND o.projected_seq < o.last_seq ORDER BY o.session_id LIMIT 100 LOOP
        EXIT WHEN open_to <= 0;
        upto := least(h.last_seq, h.projected_seq + open_to);
        PERFORM project_head(h, upto);
        open_to := open_to - (upto - h.projected_seq);
    END LOOP;
    RETURN EXISTS (SELECT 1 FROM heads o WHERE o.owner = session_user AND o.projected_seq < o.last_seq);
END
$$;

-- project_session projects at most p_limit events of a session, for an administrator. It
-- returns whether there is more.
CREATE OR REPLACE FUNCTION acode.project_session(p_session uuid, p_limit integer) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, acode, pg_temp AS $$
DECLARE
    h heads%ROWTYPE;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('acode.projection', 0));
    PERFORM pg_advisory_xact_lock(hashtextextended('acode.project ' || o.owner, 0)) FROM heads o WHERE o.session_id = p_session;
    SELECT * INTO h FROM heads o WHERE o.session_id = p_session;
    PERFORM project_head(h, least(h.last_seq, h.projected_seq + p_limit));
    RETURN h.last_seq > h.projected_seq + p_limit;
END
$$;

-- Events of a type that the functions did not know are projected now, with all that follow
-- them in their sessions: each event overwrites what an earlier one said.
DELETE FROM acode.p_flags f USING acode.heads h WHERE f.session_id = h.session_id AND f.seq >= h.unknown_seq;
UPDATE acode.heads SET projected_seq = least(projected_seq, unknown_seq - 1), unknown_seq = NULL WHERE unknown_seq IS NOT NULL;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA acode FROM PUBLIC;
GRANT EXECUTE ON FUNCTION acode.project(integer) TO acode_writer;
RESET ROLE;
