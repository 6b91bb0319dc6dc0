package migrations_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"testing"

	"github.com/acode-dev/acode/migrations"
)

// A released migration is never edited: stores exist that it made.
func TestMigrationsArePinned(t *testing.T) {
	pin(t, migrations.SQLite(), migrations.SQLiteVersion, map[string]string{
		"0001_create_store.sql": "b918517468b28a25b3f6eea5677a50a3b7aadf2a16260774ae40d5e915f7058c",
		"0002_add_outbox.sql":   "931bd651a9192bb59542cbc8480d35b24dade621e0cb404bc9125086b9f04e72",
		"0003_add_work.sql":     "8327112bdc2e61e648e6fa7d866a48fe7daf074cb3b9a42ab1efd9579a018ce7",
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
