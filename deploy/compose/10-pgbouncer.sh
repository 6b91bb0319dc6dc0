#!/bin/sh
# Runs once, when the database is made. PgBouncer gets the passwords of devices from the server
# through a function that does not return a superuser's password.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$PGBOUNCER_PASSWORD" --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
CREATE ROLE pgbouncer LOGIN PASSWORD :'password';
CREATE SCHEMA pgbouncer;
CREATE FUNCTION pgbouncer.lookup(wanted text) RETURNS TABLE (name text, secret text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT usename::text, passwd FROM pg_shadow WHERE usename = wanted AND NOT usesuper $$;
REVOKE ALL ON FUNCTION pgbouncer.lookup(text) FROM PUBLIC;
GRANT USAGE ON SCHEMA pgbouncer TO pgbouncer;
GRANT EXECUTE ON FUNCTION pgbouncer.lookup(text) TO pgbouncer;
SQL
