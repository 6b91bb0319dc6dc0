-- This must run before the first migration. It makes the roles, which belong to the
-- whole cluster and may come from another database of it, and the schemas. Every
-- statement may be repeated.
DO $$
DECLARE
    r text;
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'the database must have the encoding UTF8' USING ERRCODE = 'AC012';
    END IF;
    FOREACH r IN ARRAY ARRAY['acode_owner', 'acode_writer', 'acode_reader'] LOOP
        CONTINUE WHEN EXISTS (SELECT 1 FROM pg_roles WHERE rolname = r);
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', r);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL; -- the migration of another database made it first
        END;
    END LOOP;
    -- Since version 16 the role that makes another role may administer it, but may not
    -- act as it yet.
    IF NOT pg_has_role(current_user, 'acode_owner', CASE WHEN current_setting('server_version_num')::integer < 160000 THEN 'MEMBER' ELSE 'SET' END) THEN
        EXECUTE format('GRANT acode_owner TO %I', current_user);
    END IF;
    IF NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'acode') THEN
        CREATE SCHEMA acode AUTHORIZATION acode_owner;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'acode_views') THEN
        CREATE SCHEMA acode_views AUTHORIZATION acode_owner;
    END IF;
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO acode_writer, acode_reader', current_database());
END
$$;
