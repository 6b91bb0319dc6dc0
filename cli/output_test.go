package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a reader that takes nothing until goOn is closed.
type slow struct {
	bytes.Buffer
	goOn chan struct{}
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.goOn
	return s.Buffer.Write(p)
}

// A reader that continues after a signal gets the lines that come then. JSON Lines end at
// the first dropped line, so that their result never looks complete.
func TestOutletDrops(t *testing.T) {
	full := strings.Repeat("x", mostKept+1)
	for name, c := range map[string]struct {
		lines bool
		want  string
	}{"text": {false, full + " three"}, "lines": {true, full}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done, reader := make(chan struct{}), &slow{goOn: make(chan struct{})}
				o := outlet{&outlets{done: done, lines: c.lines}, reader}
				close(done)
				_, _ = o.Write([]byte(full))
				if _, err := o.Write([]byte(" two")); err == nil {
					t.Error("Write: waited for a reader that reads nothing")
				}
				close(reader.goOn)
				synctest.Wait()
				_, _ = o.Write([]byte(" three"))
				o.flush()
				if got := reader.String(); got != c.want {
					t.Errorf("got %d bytes, want %d", len(got), len(c.want))
				}
			})
		})
	}
}

// Before a signal nothing is dropped: a Write waits when too much is kept. Kept bytes
// hold up no Write, and are written in their order for all readers.
func TestOutletWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done, reader := make(chan struct{}), &slow{goOn: make(chan struct{})}
		both := &outlets{done: done, lines: true}
		a, b := outlet{both, reader}, outlet{both, &named{reader}}
		_, _ = a.Write([]byte("one"))
		_, _ = b.Write([]byte(" two"))
		_, _ = a.Write([]byte(strings.Repeat("x", mostKept)))
		wrote := false
		go func() {
			_, _ = b.Write([]byte(" result"))
			wrote = true
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		if wrote {
			t.Error("Write: took more than is kept")
		}
		close(reader.goOn)
		synctest.Wait()
		both.flush()
		if got := reader.String(); !wrote || !strings.HasPrefix(got, "one two") || !strings.HasSuffix(got, "x result") {
			t.Errorf("got %.20q … of %d bytes", got, len(got))
		}
	})
}

type named struct{ *slow }

// A reader that sometimes takes something is waited for. A reader that takes nothing is
// waited for once.
func TestOutletIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := &slow{goOn: make(chan struct{})}
		o := outlet{&outlets{done: make(chan struct{})}, reader}
		_, _ = o.Write([]byte("one"))
		if o.behind(time.Second) {
			t.Error("behind: got true for a few bytes")
		}
		_, _ = o.Write(make([]byte, 2*isBehind))
		before := time.Now()
		for range 1000 {
			if !o.behind(time.Second) {
				t.Error("behind: got false for a reader that takes nothing")
			}
		}
		if took := time.Since(before); took != time.Second {
			t.Errorf("behind: took %s, want its patience once", took)
		}
		close(reader.goOn)
		o.flush()
		if o.behind(0) {
			t.Error("behind: got true after all was written")
		}
	})
}

// acode continues after a reader has taken each line. It waits once for a reader that has
// stopped.
func TestOutletCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := &slow{goOn: make(chan struct{})}
		o := outlet{&outlets{done: make(chan struct{})}, reader}
		_, _ = o.Write([]byte("one"))
		before := time.Now()
		for range 1000 {
			o.catchUp(time.Second)
		}
		if took := time.Since(before); took != time.Second {
			t.Errorf("catchUp: took %s, want its patience once", took)
		}
		close(reader.goOn)
		o.flush()
		_, _ = o.Write([]byte("two"))
		o.catchUp(time.Second)
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.pieces) != 0 || o.stuck {
			t.Errorf("catchUp: %d pieces are left, stuck %v", len(o.pieces), o.stuck)
		}
	})
}
