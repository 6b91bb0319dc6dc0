package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// Secrets that a process of a session knew are known to every process that reads or
// continues the session. The store does not hold their values.
func TestLearntIsRemembered(t *testing.T) {
	const first, second = "first-0123456789-abcdef", "second-0123456789-ghijkl"
	o := options(t)
	with := func(secrets ...string) local.Options {
		o.Redactor = redact.New(secrets)
		return o
	}
	s := open(t, with(first))
	id := create(t, s, 2).Session().ID
	must(t, s.Close())

	s = open(t, with(second))
	w := load(t, s, id)
	before := w.Session().Learnt
	appendAll(t, w, acquire(s))
	if now := w.Session().Learnt; before == "" || now == before {
		t.Errorf("Learnt: got %q, then %q", before, now)
	}
	const third = "third-0123456789-mnopqr"
	o.Redactor.(*redact.Redactor).Learn([]string{third}) // as from a captured value
	ref, err := w.Stage(t.Context(), strings.NewReader(third), int64(len(third)))
	must(t, err)
	receipt := completed(w, 0, 1)
	data := receipt.Data.(session.StepCompletedData)
	data.Capture = &session.Capture{Name: "TOKEN", Blob: ref}
	receipt.Data = data
	appendAll(t, w, started(w, 0, 1), receipt)
	last := w.Session().Learnt
	o.Redactor.(*redact.Redactor).Learn([]string{"fourth-0123456789-stuvwx"})
	if again, err := w.Append(t.Context(), receipt); err != nil || again[0].Seq != w.Session().LastSeq {
		t.Errorf("Append of the same receipt: %v, %v", again, err)
	}
	if w.Session().Learnt != last {
		t.Error("a receipt that is repeated changed the learnt secrets")
	}
	must(t, w.Close())
	must(t, s.Close())

	s = open(t, with())
	w = load(t, s, id)
	appendAll(t, w, acquire(s))
	if now := w.Session().Learnt; now != load(t, s, id).Session().Learnt {
		t.Errorf("Learnt: got %q though nothing was learnt", now)
	}
	if got := o.Redactor.(*redact.Redactor).String(first + " " + second + " " + third); got != "***cdef ***ijkl ***opqr" {
		t.Errorf("after Load: got %q", got)
	}
	must(t, w.Close())
	must(t, s.Close())

	s = openRead(t, with())
	if _, err := s.View(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := o.Redactor.(*redact.Redactor).String(first + " " + second + " " + third); got != "***cdef ***ijkl ***opqr" {
		t.Errorf("after View: got %q", got)
	}
	if r := verify(t, s); len(r.Problems)+len(r.Unnamed) > 0 {
		t.Errorf("Verify: %v, unnamed %v", r.Problems, r.Unnamed)
	}
	must(t, filepath.WalkDir(o.Home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if got := redact.New([]string{first, second, third}); got.Changes(content) && string(got.Bytes(content)) != string(redact.New(nil).Bytes(content)) {
			t.Errorf("%s holds a secret", path)
		}
		return err
	}))
}
