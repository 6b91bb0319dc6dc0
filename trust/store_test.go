package trust

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/session"
)

// A record is replaced as a whole, removed by a revocation, and private to the user.
func TestStore(t *testing.T) {
	s := newSite(t)
	s.write("ws/AGENTS.md", "be good")
	v := s.see()
	if yes, known, err := s.store.Trusts(v); yes || known || err != nil {
		t.Errorf("before: got %t, %t, %v", yes, known, err)
	}
	if was, err := s.store.Revoke(s.ws); was || err != nil {
		t.Errorf("Revoke of nothing: got %t, %v", was, err)
	}
	for _, content := range []string{"one", "two"} {
		s.write("ws/AGENTS.md", content)
		s.bind(s.see())
		if yes, _, err := s.store.Trusts(s.see()); !yes || err != nil {
			t.Errorf("after Bind: got %t, %v", yes, err)
		}
	}
	if yes, known, err := s.store.Trusts(v); yes || !known || err != nil {
		t.Errorf("an earlier content: got %t, %t, %v", yes, known, err)
	}
	r, err := s.store.Of(s.ws)
	if err != nil || r.By != "ann" || r.Workspace != s.ws || !r.At.Equal(time.Unix(1, 0)) {
		t.Errorf("Of: got %+v, %v", r, err)
	}
	left, err := os.ReadDir(s.store.Dir)
	if err != nil || len(left) != 1 {
		t.Errorf("the store has %v, %v, want one record", left, err)
	}
	for name, want := range map[string]os.FileMode{s.store.Dir: 0o700, s.record(): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v, want the mode %o", name, info.Mode(), err, want)
		}
	}
}

// A damaged record is an error, and nothing is trusted. A new one replaces it.
func TestDamagedRecord(t *testing.T) {
	s := newSite(t)
	s.write("ws/AGENTS.md", "be good")
	s.bind(s.see())
	whole, err := os.ReadFile(s.record())
	s.must(err)
	for name, text := range map[string]string{
		"empty": "", "cut": string(whole[:20]), "another_version": strings.Replace(string(whole), `"v":1`, `"v":2`, 1),
		"more_fields": strings.Replace(string(whole), `"v":1`, `"v":1,"all":true`, 1), "two": string(whole) + string(whole),
	} {
		s.must(os.WriteFile(s.record(), []byte(text), 0o600))
		if yes, _, err := s.store.Trusts(s.see()); yes || !errors.Is(err, session.ErrConfig) {
			t.Errorf("%s: got %t, %v, want %s", name, yes, err, session.ErrConfig)
		}
	}
	s.bind(s.see())
	if s.given() != "be good" {
		t.Error("a new record does not replace a damaged one")
	}
	s.must(os.Remove(s.record()))
	s.must(os.Mkdir(s.record(), 0o700))
	if _, err := s.store.Of(s.ws); !errors.Is(err, session.ErrConfig) {
		t.Errorf("a directory in place of the record: got %v", err)
	}
	if _, err := Look(filepath.Join(s.top, "none")); !errors.Is(err, session.ErrWorkspace) {
		t.Errorf("Look at no workspace: got %v", err)
	}
}
