package migrations_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"testing"

	"github.com/acode-dev/acode/migrations"
)

// A released migration is never edited: stores exist that it made. Before the first release this sum changes with the file.
func TestMigrationsArePinned(t *testing.T) {
	pin(t, migrations.SQLite(), migrations.SQLiteVersion, map[string]string{
		"0001_create_store.sql": "562d86a9da32671727924decfe09ac6896f2377a12e8b365501474a8f6d930d3",
	})
}

func pin(t *testing.T, files fs.FS, version int, pinned map[string]string) {
	t.Helper()
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != len(pinned) || len(names) != version {
		t.Errorf("%d files, %d pinned, version %d", len(names), len(pinned), version)
	}
	for i, name := range names {
		b, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		if got := hex.EncodeToString(sum[:]); got != pinned[name] {
			t.Errorf("%s: checksum %s, want %s", name, got, pinned[name])
		}
		if want := fmt.Sprintf("%04d_", i+1); name[:5] != want {
			t.Errorf("%s: does not begin with %s", name, want)
		}
	}
}
