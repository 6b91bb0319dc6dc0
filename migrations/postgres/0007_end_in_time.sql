-- +goose Up
SET LOCAL ROLE acode_owner;

-- +goose StatementBegin
-- project_call notes what an event says about an attempt of a step, and about the step. A command
-- can be over before its receipt, by a clock that may have been set back since it began.
CREATE OR REPLACE FUNCTION acode.project_call(p_session uuid, e record, j jsonb, p_status text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, acode, pg_temp AS $$
DECLARE
    v_task    text := as_name(j ->> 'task');
    v_step    text := as_name(j ->> 'step');
    v_attempt bigint := coalesce(as_number(j ->> 'attempt'), 0);
    v_op      text := as_name(split_part(split_part(j ->> 'key', ':', 3), '/', 3));
    v_started boolean := p_status = 'in_progress';
    r         jsonb := coalesce(j -> 'command', '{}');
    v_ended   bigint := CASE WHEN NOT v_started THEN least(e.time_us, as_number(j ->> 'ended_us')) END;
BEGIN
    IF v_task = '' AND v_step = '' THEN
        RETURN; -- its content is not here
    END IF;
    INSERT INTO p_tool_calls AS c (session_id, task, step, operation, attempt, key, kind, status, by, start_seq, last_seq, started_us, ended_us,
        exit, signal, timed_out, duration_us, stdout_bytes, stderr_bytes, code, message)
    VALUES (p_session, v_task, v_step, v_op, v_attempt, j ->> 'key', j ->> 'kind', p_status, j ->> 'by',
        CASE WHEN v_started THEN e.seq END, e.seq, CASE WHEN v_started THEN e.time_us END, v_ended,
        as_number(r ->> 'exit'), r ->> 'signal', (r ->> 'timed_out') = 'true', as_number(r ->> 'duration_us'),
        as_number(r #>> '{stdout,bytes}'), as_number(r #>> '{stderr,bytes}'), j ->> 'code', coalesce(j ->> 'message', j ->> 'why'))
    ON CONFLICT (session_id, task, step, operation, attempt) DO UPDATE SET
        key = coalesce(excluded.key, c.key), kind = coalesce(excluded.kind, c.kind), status = excluded.status,
        by = coalesce(excluded.by, c.by), start_seq = coalesce(excluded.start_seq, c.start_seq), last_seq = excluded.last_seq,
        started_us = coalesce(excluded.started_us, c.started_us), ended_us = CASE WHEN excluded.ended_us < c.started_us THEN e.time_us ELSE excluded.ended_us END,
        exit = excluded.exit, signal = excluded.signal, timed_out = excluded.timed_out, duration_us = excluded.duration_us,
        stdout_bytes = excluded.stdout_bytes, stderr_bytes = excluded.stderr_bytes, code = excluded.code, message = excluded.message;
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
-- +goose StatementEnd

UPDATE acode.meta SET schema_version = 7;
RESET ROLE;
