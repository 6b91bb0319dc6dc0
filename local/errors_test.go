package local_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

func TestFailuresOfTheDiskHaveCodes(t *testing.T) {
	for _, c := range []struct {
		err   error
		code  session.Code
		fatal bool
	}{
		{syscall.ENOSPC, session.ErrDiskFull, true},
		{syscall.EDQUOT, session.ErrDiskFull, true},
		{syscall.EROFS, session.ErrReadOnly, true},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.EIO}, session.ErrStoreIO, true},
		{errors.New("else"), session.ErrInternal, false},
		{context.Canceled, session.ErrInternal, false},
		{&session.Error{Code: session.ErrFenced}, session.ErrFenced, false},
	} {
		err := local.StoreError("write", fmt.Errorf("deeper: %w", c.err))
		if got := session.CodeOf(err); got != c.code {
			t.Errorf("%v: code %s, want %s", c.err, got, c.code)
		}
		if got := local.Fatal(err); got != c.fatal {
			t.Errorf("%v: fatal %v, want %v", c.err, got, c.fatal)
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%v: lost its cause", c.err)
		}
	}
	if local.StoreError("write", nil) != nil {
		t.Error("no failure became one")
	}
}

func TestProblemsAreOneLine(t *testing.T) {
	p := local.Problem{Session: "s", Code: session.ErrCorrupt, Place: "seq 3", Message: "bad"}
	if got := p.String(); got != "session s: seq 3: bad (ACODE-JOURNAL-002)" {
		t.Errorf("String: got %q", got)
	}
	if got := (local.Problem{Place: "schema"}).String(); !strings.HasPrefix(got, "store: schema") {
		t.Errorf("String: got %q", got)
	}
}
