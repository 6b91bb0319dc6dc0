package remote_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// forbidden lists the statements that a device's role may not run.
func forbidden() map[string]string {
	const zero = `decode(repeat('00', 32), 'hex')`
	m := map[string]string{
		"insert received_at":  `INSERT INTO acode.events (session_id, seq, received_at, id, time_us, epoch, type, actor, device, hash, payload) VALUES (gen_random_uuid(), 1, now(), gen_random_uuid(), 1, 0, 'T', 'a', 'd', ` + zero + `, '')`,
		"insert head":         `INSERT INTO acode.heads (session_id, owner, device, last_seq, epoch, head, first_prev, verified_head) VALUES (gen_random_uuid(), session_user, 'd', 0, 0, ` + zero + `, ` + zero + `, ` + zero + `)`,
		"steal a session":     `UPDATE acode.heads SET owner = session_user`,
		"move a mark":         `UPDATE acode.heads SET last_seq = 0`,
		"set the version":     `UPDATE acode.meta SET schema_version = 99`,
		"delete events":       `DELETE FROM acode.events`,
		"update events":       `UPDATE acode.events SET payload = ''`,
		"truncate events":     `TRUNCATE acode.events`,
		"drop events":         `DROP TABLE acode.events`,
		"drop a partition":    `DO $$ BEGIN EXECUTE 'DROP TABLE acode.events_' || to_char(now(), 'YYYY_MM'); END $$`,
		"insert a partition":  `DO $$ BEGIN EXECUTE 'INSERT INTO acode.events_' || to_char(now(), 'YYYY_MM') || ' (seq) VALUES (1)'; END $$`,
		"read a partition":    `DO $$ BEGIN EXECUTE 'TABLE acode.events_' || to_char(now(), 'YYYY_MM'); END $$`,
		"insert an event":     `INSERT INTO acode.events (session_id, seq, id, time_us, epoch, type, actor, device, hash, payload) VALUES (gen_random_uuid(), 1, gen_random_uuid(), 1, 0, 'T', 'a', 'd', ` + zero + `, '')`,
		"copy in":             `COPY acode.events (session_id, seq) FROM STDIN`,
		"copy out":            `COPY acode.events TO STDOUT`,
		"delete forks":        `DELETE FROM acode.forks`,
		"make a table":        `CREATE TABLE acode.mine (a int)`,
		"make a function":     `CREATE FUNCTION acode.be_durable(int) RETURNS void LANGUAGE sql AS 'SELECT'`,
		"replace a function":  `CREATE OR REPLACE FUNCTION acode.be_durable() RETURNS void LANGUAGE sql AS 'SELECT'`,
		"add a trigger":       `CREATE TRIGGER t BEFORE INSERT ON acode.events FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()`,
		"disable triggers":    `ALTER TABLE acode.events DISABLE TRIGGER ALL`,
		"replication role":    `SET session_replication_role = replica`,
		"become the owner":    `SET ROLE acode_owner`,
		"become the reader":   `SET ROLE acode_reader`,
		"become superuser":    `SET SESSION AUTHORIZATION postgres`,
		"grant":               `GRANT acode_owner TO CURRENT_USER`,
		"returning":           `INSERT INTO acode.events (session_id, seq, id, time_us, epoch, type, actor, device, hash, payload) VALUES (gen_random_uuid(), 1, gen_random_uuid(), 1, 0, 'T', 'a', 'd', ` + zero + `, '') RETURNING payload`,
		"lock a head":         `SELECT acode.lock_head(gen_random_uuid(), 'd', true)`,
		"compute differences": `SELECT acode.first_difference(NULL, 1, '', '{}', '{}', 0)`,
		"versions of goose":   `TABLE acode.goose_db_version`,
		"make a schema":       `CREATE SCHEMA pg_catalog2`,
		"server files":        `SELECT pg_read_file('/etc/passwd')`,
	}
	for _, table := range []string{"meta", "heads", "counts", "events", "forks", "blobs", "blob_chunks", "p_sessions", "p_steps", "p_tool_calls",
		"p_checkpoints", "p_approvals", "p_machines", "p_flags"} {
		m["read "+table] = `SELECT 1 FROM acode.` + table
	}
	return m
}

// S4: a device's role can use the functions, nothing else (FR-050 to FR-055 depend on
// it).
func TestWriterIsConfined(t *testing.T) {
	s := commonSite(t)
	writer := s.role("acode_writer")
	c := newChain(3)
	if _, err := s.open(s.role("acode_writer")).Deliver(t.Context(), c.from(1, 3)); err != nil {
		t.Fatal(err)
	}
	for name, sql := range forbidden() {
		err := execAs(writer, sql)
		var pe *pgconn.PgError
		if !errors.As(err, &pe) || pe.Code != "42501" {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
	if err := execAs(writer, `SELECT * FROM acode.hello('x'); SELECT * FROM acode.marks('x', gen_random_uuid(), 1); SELECT * FROM acode.list_sessions(gen_random_uuid(), 1)`); err != nil {
		t.Errorf("a call that a device may make: %v", err)
	}
	if got := s.value(`SELECT string_agg(p.proname, ' ') FROM pg_proc p WHERE p.pronamespace = 'acode'::regnamespace
		AND (p.proacl IS NULL OR EXISTS (SELECT 1 FROM aclexplode(p.proacl) a WHERE a.grantee = 0))`); got != "" {
		t.Errorf("PUBLIC may call %s", got)
	}
	if got := s.value(`SELECT string_agg(p.proname, ' ') FROM pg_proc p WHERE p.pronamespace = 'acode'::regnamespace AND p.prosecdef
		AND NOT coalesce(array_to_string(p.proconfig, ','), '') ~ 'search_path=pg_catalog, acode, pg_temp'`); got != "" {
		t.Errorf("without a fixed search_path: %s", got)
	}
}

// The functions must not use objects of the caller that are found first.
func TestSearchPathTrick(t *testing.T) {
	s := commonSite(t)
	victim := newChain(3)
	if _, err := s.open(s.role("acode_writer")).Deliver(t.Context(), victim.from(1, 3)); err != nil {
		t.Fatal(err)
	}
	before := (&lane{site: s}).rows()
	writer := s.role("acode_writer")
	trick := fmt.Sprintf(`CREATE TEMP TABLE heads (session_id uuid, owner name, device text, last_seq bigint, epoch bigint, head bytea,
			first_seq bigint, first_prev bytea, verified_seq bigint, verified_head bytea, broken_seq bigint, projected_seq bigint, created_at timestamptz, updated_at timestamptz);
		INSERT INTO heads SELECT '%s', session_user, 'd', 0, 0, decode(repeat('00', 32), 'hex'), 1, decode(repeat('00', 32), 'hex'), 0, decode(repeat('00', 32), 'hex'), NULL, 0, now(), now();
		CREATE FUNCTION pg_temp.cardinality(uuid[]) RETURNS int LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''tricked'' USING ERRCODE = ''ZZZZZ''; END';
		SET search_path = pg_temp, acode, pg_catalog;
		SELECT * FROM acode.ingest('%[1]s', 'd', 1, decode(repeat('00', 32), 'hex'), ARRAY[gen_random_uuid()], ARRAY[1::bigint], ARRAY['T'], ARRAY['a'],
			ARRAY[0::bigint], ARRAY[decode(repeat('11', 32), 'hex')], ARRAY[''::bytea])`, victim.id)
	err := execAs(writer, trick)
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.Code != "AC001" {
		t.Errorf("ingest with objects of the caller's own before ours: got %v, want AC001", err)
	}
	if after := (&lane{site: s}).rows(); after != before {
		t.Errorf("the trick changed the server: %s, was %s", after, before)
	}
}

// A reader sees the views, and nothing else.
func TestReaderIsConfined(t *testing.T) {
	s := commonSite(t)
	reader := s.role("acode_reader")
	for view := range strings.FieldsSeq(s.value(`SELECT string_agg(viewname, ' ') FROM pg_views WHERE schemaname = 'acode_views'`)) {
		if err := execAs(reader, `TABLE acode_views.`+view); err != nil {
			t.Errorf("read %s: %v", view, err)
		}
		if err := execAs(reader, `DELETE FROM acode_views.`+view); err == nil {
			t.Errorf("delete from %s: not refused", view)
		}
	}
	for name, sql := range forbidden() {
		if name == "become the reader" {
			continue
		}
		err := execAs(reader, sql)
		wantState(t, name+", as reader", err, "42501")
	}
	wantState(t, "hello, as reader", execAs(reader, `SELECT * FROM acode.hello('x')`), "42501")
	wantState(t, "the list, as reader", execAs(reader, `SELECT * FROM acode.list_sessions(gen_random_uuid(), 1)`), "42501")
	wantState(t, "a view, as writer", execAs(s.role("acode_writer"), `TABLE acode_views.sessions`), "42501")
}
