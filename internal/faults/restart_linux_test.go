package faults_test

import (
	"testing"

	"github.com/acode-dev/acode/internal/crash"
)

// Pages that an earlier process failed to sync may look written without being durable. A
// writing open must therefore copy the log into the database and sync it before it writes
// to the log.
func TestOpenCopiesTheLogFirst(t *testing.T) {
	s := plainSite(t)
	s.halfDone(t)
	e, _, calls := s.traced(t, crash.Point{}, nil, "resume")
	if e.exit != 0 {
		t.Fatal(e)
	}
	copied, synced := false, false
	for _, c := range calls {
		switch {
		case c.Role != crash.RoleAcode:
		case c.Path == s.database() && c.Kind == crash.KindWrite:
			copied, synced = true, false
		case c.Path == s.database() && c.Kind == crash.KindSync && c.OK():
			synced = true
		case c.Path == s.database()+"-wal" && c.Kind == crash.KindWrite:
			if !copied || !synced {
				t.Errorf("before the log was copied (%v) and synced (%v): %v", copied, synced, c)
			}
			return
		}
	}
	t.Error("the resume wrote nothing to the log")
}
