package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
)

// slow is a reader that stops after the first write until go is closed.
type slow struct {
	bytes.Buffer
	goOn chan struct{}
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.goOn
	return s.Buffer.Write(p)
}

// Whoever reads on after a signal gets the lines that come then; JSON Lines of which one was dropped
// end there, so that their result never says that they were whole.
func TestOutletDrops(t *testing.T) {
	for name, c := range map[string]struct {
		lines bool
		want  string
	}{"text": {false, "one three"}, "lines": {true, "one"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done, reader := make(chan struct{}), &slow{goOn: make(chan struct{})}
				o := &outlet{to: reader, done: done, lines: c.lines}
				close(done)
				if _, err := o.Write([]byte("one")); err == nil {
					t.Error("Write: waited for a reader that reads nothing")
				}
				_, _ = o.Write([]byte(" two")) // dropped
				close(reader.goOn)
				synctest.Wait()
				_, _ = o.Write([]byte(" three"))
				if got := reader.String(); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

// What only had to wait was not lost.
func TestOutletWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done, reader := make(chan struct{}), &slow{goOn: make(chan struct{})}
		o := &outlet{to: reader, done: done, lines: true}
		close(done)
		_, _ = o.Write([]byte("one")) // given up
		close(reader.goOn)
		synctest.Wait()
		_, _ = o.Write([]byte(" result"))
		if got := reader.String(); got != "one result" {
			t.Errorf("got %q, want both", got)
		}
	})
}
