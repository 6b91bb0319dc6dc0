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
	pinned := map[string]string{
		"0001_create_store.sql": "0172fb168f4c026a357fd878cc49dc1771c27ab90279642e390d19311cbf591d",
	}
	names, err := fs.Glob(migrations.SQLite(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != len(pinned) || len(names) != migrations.SQLiteVersion {
		t.Errorf("%d files, %d pinned, version %d", len(names), len(pinned), migrations.SQLiteVersion)
	}
	for i, name := range names {
		b, err := fs.ReadFile(migrations.SQLite(), name)
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
