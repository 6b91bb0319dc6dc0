package campaign_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// loosen makes the schema accept any row for an edit. tighten restores the schema.
const (
	loosen = `PRAGMA writable_schema = ON;
		CREATE TEMP TABLE kept AS SELECT * FROM main.sqlite_master;
		DELETE FROM main.sqlite_master WHERE type = 'trigger';
		UPDATE main.sqlite_master SET sql = replace(replace(sql, ') STRICT, W', ') W'), ') STRICT', ')') WHERE type = 'table';
		PRAGMA writable_schema = RESET;`
	tighten = `PRAGMA writable_schema = ON;
		UPDATE main.sqlite_master SET sql = (SELECT k.sql FROM kept k WHERE k.type = 'table' AND k.name = sqlite_master.name) WHERE type = 'table';
		INSERT INTO main.sqlite_master SELECT * FROM kept WHERE type = 'trigger';`
)

// edit changes rows of a store with sqlite3, without the schema's checks and without
// acode's key.
func (s site) edit(t testing.TB, script string) {
	t.Helper()
	out, err := exec.Command("sqlite3", "-batch", "-bail", filepath.Join(s.store(), "acode.db"), loosen+script+";"+tighten).CombinedOutput()
	if err != nil {
		t.Fatalf("sqlite3: %v: %s", err, out)
	}
}

// A1, A2: acode reports rows that it never writes as corruption, not as its own bug.
func TestRowsOfTheWrongKind(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, scratch(t), true)
	// Rows that resume does not read.
	unread := []string{"a_sequence_is_of_others", "a_migration_is_other"}
	for name, script := range map[string]string{
		"session_steps_are_text":  `UPDATE sessions SET step_total = 'ten'`,
		"session_id_is_a_blob":    `UPDATE sessions SET last_us = x'00'`,
		"store_device_is_a_blob":  `UPDATE store SET device = x'00'`,
		"store_row_is_gone":       `DELETE FROM store`,
		"event_time_is_text":      `UPDATE events SET time_us = 'late'`,
		"step_attempt_is_text":    `UPDATE steps SET attempt = 'first'`,
		"newest_event_is_gone":    `DELETE FROM events WHERE pos = (SELECT max(pos) FROM events)`,
		"newest_events_are_gone":  `DELETE FROM events WHERE pos > (SELECT max(pos) - 4 FROM events); UPDATE sessions SET last_seq = last_seq - 4`,
		"a_file_s_hash_is_other":  `UPDATE files SET hash = lower(hex(randomblob(32)))`,
		"a_step_is_done":          `UPDATE steps SET status = 'completed' WHERE step = 'hold'`,
		"session_id_is_other":     `PRAGMA foreign_keys = 0; UPDATE sessions SET id = replace(id, '-7', '-8')`,
		"a_trigger_is_other":      `UPDATE kept SET sql = replace(sql, 'FROM events', 'FROM evants') WHERE name = 'events_insert'`,
		"a_short_id_is_a_blob":    `UPDATE sessions SET short = CAST(short AS BLOB)`,
		"a_file_s_path_is_a_blob": `UPDATE files SET path = CAST(path AS BLOB)`,
		"a_sequence_is_of_others": `UPDATE sqlite_sequence SET name = 'goose_db_versimn'`,
		"a_migration_is_other":    `UPDATE goose_db_version SET id = 9 WHERE id = (SELECT max(id) FROM goose_db_version)`,
		"a_session_id_is_longer":  `PRAGMA ignore_check_constraints = 1; UPDATE sessions SET id = id || 'executing'`,
		"a_blob_is_gone":          `DELETE FROM blobs WHERE bytes > 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			c.restore(t)
			id := c.site.id(t)
			c.site.edit(t, script)
			if e := c.site.acode(t, "verify"); e.exit != 18 {
				t.Errorf("%v; want exit 18", e)
			}
			if class, finding := c.judgeResume(t, c.site.acode(t, "resume", id)); finding != "" || class == "resume 0" && !slices.Contains(unread, name) {
				t.Errorf("%s: %s", class, finding)
			}
		})
	}
}
