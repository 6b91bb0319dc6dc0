package migrations_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"testing"

	"github.com/acode-dev/acode/migrations"
)

// A released migration is never edited, because it has made stores that exist. Before
// the first release this sum changes with the file.
func TestMigrationsArePinned(t *testing.T) {
	pin(t, migrations.SQLite(), migrations.SQLiteVersion, map[string]string{
		"0001_create_store.sql": "8d7127301a8e2748550b7ba849abf4260c89e1d8ee25d364238e7f9fc27bf6e4",
	})
}

// pin compares the files with the checksums of the released ones.
func pin(t *testing.T, files fs.FS, version int, pinned map[string]string) {
	t.Helper()
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != version || len(pinned) > len(names) {
		t.Errorf("%d files, %d pinned, version %d", len(names), len(pinned), version)
	}
	for i, name := range names {
		b, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		if want, released := pinned[name]; released && hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: checksum %x, want %s", name, sum, want)
		}
		if want := fmt.Sprintf("%04d_", i+1); name[:5] != want {
			t.Errorf("%s: does not begin with %s", name, want)
		}
	}
}
