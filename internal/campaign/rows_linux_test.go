package campaign_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// edit changes the rows of a store with sqlite3, STRICT or not, without acode's key.
func (s site) edit(t testing.TB, script string) {
	t.Helper()
	loosen := "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE type = 'table'; PRAGMA writable_schema = RESET;\n"
	out, err := exec.Command("sqlite3", "-batch", "-bail", filepath.Join(s.store(), "acode.db"), loosen+script).CombinedOutput()
	if err != nil {
		t.Fatalf("sqlite3: %v: %s", err, out)
	}
}

// C1, C2: rows that no program of ours would write are corruption, not a bug of acode.
func TestRowsOfTheWrongKind(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, scratch(t), true)
	for name, script := range map[string]string{
		"session_steps_are_text": `UPDATE sessions SET step_total = 'ten'`,
		"session_id_is_a_blob":   `UPDATE sessions SET last_us = x'00'`,
		"store_clock_is_text":    `UPDATE store SET last_us = 'late'`,
		"store_row_is_gone":      `DELETE FROM store`,
		"event_time_is_text":     `DROP TRIGGER events_update; UPDATE events SET time_us = 'late'`,
		"step_attempt_is_text":   `UPDATE steps SET attempt = 'first'`,
		"newest_event_is_gone":   `DROP TRIGGER events_delete; DELETE FROM events WHERE pos = (SELECT max(pos) FROM events)`,
		"newest_events_are_gone": `DROP TRIGGER events_delete; DELETE FROM events WHERE pos > (SELECT max(pos) - 4 FROM events); UPDATE sessions SET last_seq = last_seq - 4`,
		"a_file_s_hash_is_other": `UPDATE files SET hash = lower(hex(randomblob(32)))`,
		"a_step_is_done":         `UPDATE steps SET status = 'completed' WHERE step = 'hold'`,
		"session_id_is_other":    `PRAGMA foreign_keys = 0; UPDATE sessions SET id = replace(id, '-7', '-8')`,
		"a_trigger_is_other":     `PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'FROM events', 'FROM evants') WHERE name = 'events_insert'; PRAGMA writable_schema = RESET`,
		"a_blob_is_gone":         `DELETE FROM blobs WHERE bytes > 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			c.restore(t)
			id := c.site.id(t)
			c.site.edit(t, script)
			if e := c.site.acode(t, "verify"); e.exit != 18 {
				t.Errorf("%v; want exit 18", e)
			}
			if class, finding := c.judgeResume(t, c.site.acode(t, "resume", id)); finding != "" || class == "resume 0" {
				t.Errorf("%s: %s", class, finding)
			}
		})
	}
}
