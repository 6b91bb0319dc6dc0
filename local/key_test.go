package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/zalando/go-keyring"
)

// A store made with a keyring always needs it. If the keyring fails when the store is
// made, another source is used.
func TestKeyFromTheKeyring(t *testing.T) {
	keyring.MockInit()
	o := options(t)
	o.Keyring = true
	for range 2 {
		if err := open(t, o).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(o.Home, "key")); !os.IsNotExist(err) {
		t.Errorf("key file: made nevertheless (%v)", err)
	}
	o.Keyring = false
	if _, err := local.Open(t.Context(), o); !errors.Is(err, session.ErrKey) {
		t.Errorf("Open without the keyring: %v", err)
	}
	keyring.MockInitWithError(errors.New("locked"))
	o.Keyring = true
	if _, err := local.Open(t.Context(), o); !errors.Is(err, session.ErrKey) {
		t.Errorf("Open with a locked keyring: %v", err)
	}
	fresh := options(t)
	fresh.Keyring = true
	open(t, fresh)
	if _, err := os.Stat(filepath.Join(fresh.Home, "key")); err != nil {
		t.Errorf("key file: %v", err)
	}
}
