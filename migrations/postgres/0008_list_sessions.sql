-- +goose Up
SET LOCAL ROLE acode_owner;

-- +goose StatementBegin
-- list_sessions lists the caller's sessions of every device below p_before, the newest first: their
-- ids begin with the time. What the typed tables do not have yet is null, or as of projected_seq.
CREATE FUNCTION acode.list_sessions(p_before uuid, p_limit integer)
RETURNS TABLE (session_id uuid, short_id text, device text, host text, task text, workspace text, state text, reason text,
    tasks bigint, steps bigint, steps_completed bigint, epoch bigint, last_seq bigint, projected_seq bigint,
    created_us bigint, last_us bigint, received_us bigint, forked boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, acode, pg_temp AS $$
    SELECT h.session_id, p.short_id, h.device, p.host, p.task, p.workspace, p.state, p.reason, p.tasks, p.steps,
        (SELECT count(*) FROM p_steps s WHERE s.session_id = h.session_id AND s.status = 'completed'),
        h.epoch, h.last_seq, h.projected_seq, p.created_us, p.last_us, (extract(epoch FROM h.updated_at) * 1000000)::bigint,
        EXISTS (SELECT FROM forks f WHERE f.session_id = h.session_id)
    FROM heads h LEFT JOIN p_sessions p ON p.session_id = h.session_id
    WHERE h.owner = session_user AND h.session_id < p_before
    ORDER BY h.session_id DESC LIMIT least(greatest(p_limit, 1), 1000)
$$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION acode.list_sessions(uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION acode.list_sessions(uuid, integer) TO acode_writer;

UPDATE acode.meta SET schema_version = 8;
RESET ROLE;
