package local_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

// counted is a context that ends after a number of calls of its methods.
type counted struct {
	context.Context
	left  atomic.Int64
	ended chan struct{}
}

func cutAfter(parent context.Context, looks int) *counted {
	c := &counted{Context: parent, ended: make(chan struct{})}
	c.left.Store(int64(looks))
	return c
}

func (c *counted) look() {
	if c.left.Add(-1) == 0 {
		close(c.ended)
	}
}

func (c *counted) Done() <-chan struct{} { c.look(); return c.ended }

func (c *counted) Err() error {
	c.look()
	select {
	case <-c.ended:
		return context.Canceled
	default:
		return nil
	}
}

// uncut is more calls than any operation makes.
const uncut = 4000

// sweep calls f with a context that ends later each time, until f succeeds twice in a
// row. From the seventh call on it skips some points, unless make torture runs it.
func sweep(t *testing.T, f func(ctx context.Context, looks int) error) {
	t.Helper()
	failed, succeeded, taken := 0, 0, 0
	step := func(looks int) int { return 1 + looks/7 }
	if long() {
		step = func(int) int { return 1 }
	}
	var last error
	for looks := 1; succeeded < 2; looks += step(looks) {
		taken++
		if looks > uncut {
			t.Fatalf("it never succeeds: %v", last)
		}
		if last = f(cutAfter(t.Context(), looks), looks); last != nil {
			failed, succeeded = failed+1, 0
		} else {
			succeeded++
		}
	}
	if failed == 0 {
		t.Error("it was never cut")
	}
	t.Logf("cut at %d points", taken)
}

// If the making of a store is interrupted at any point, nothing stays, not even the
// directories above it. The next open makes the store.
func TestMakingCutShort(t *testing.T) {
	sweep(t, func(ctx context.Context, looks int) error {
		o := options(t)
		above := o.Home
		o.Home = filepath.Join(above, "state", "store")
		s, err := local.Open(ctx, o)
		if err == nil {
			return s.Close()
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cut after %d looks: Open: got %v, want %v", looks, err, context.Canceled)
		}
		if _, lerr := os.Lstat(above); !errors.Is(lerr, fs.ErrNotExist) {
			left, _ := filepath.Glob(o.Home + "/*")
			t.Errorf("cut after %d looks: %s is left, with %q", looks, above, left)
		}
		if _, rerr := local.OpenRead(t.Context(), o); rerr != nil && !errors.Is(rerr, session.ErrUnknownID) {
			t.Errorf("cut after %d looks: OpenRead: %v", looks, rerr)
		}
		again := open(t, o)
		if cerr := again.Close(); cerr != nil {
			t.Error(cerr)
		}
		return err
	})
}

// Interrupted reads and loads return an error and change nothing.
func TestReadingCutShort(t *testing.T) {
	o, want := closedSample(t)
	for name, read := range map[string]func(ctx context.Context, s *local.Store) error{
		"view":      func(ctx context.Context, s *local.Store) error { _, err := s.View(ctx, want.ID); return err },
		"events":    func(ctx context.Context, s *local.Store) error { _, err := s.Events(ctx, want.ID, 0, 9); return err },
		"summaries": func(ctx context.Context, s *local.Store) error { _, err := s.Summaries(ctx, ""); return err },
		"find":      func(ctx context.Context, s *local.Store) error { _, err := s.Find(ctx, want.Short); return err },
		"plan":      func(ctx context.Context, s *local.Store) error { _, err := s.Plan(ctx, want); return err },
		"load": func(ctx context.Context, s *local.Store) error {
			w, err := s.Load(ctx, want.ID)
			if err != nil {
				return err
			}
			_, err = w.Event(ctx, 2)
			if err == nil {
				_, err = w.Requests(ctx)
			}
			return errors.Join(err, w.Close())
		},
		"verify": func(ctx context.Context, s *local.Store) error {
			r, err := s.Verify(ctx, "")
			if err == nil && len(r.Problems) > 0 {
				t.Errorf("a verify that was cut short names %v", r.Problems[0])
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			sweep(t, func(ctx context.Context, _ int) error { return read(ctx, openRead(t, o)) })
			writing := open(t, o)
			sweep(t, func(ctx context.Context, _ int) error { return read(ctx, writing) })
		})
	}
	if r := verify(t, openRead(t, o)); len(r.Problems) > 0 {
		t.Error(r.Problems)
	}
}

// An expired deadline is never reported as damage.
func TestDeadlineIsNoDamage(t *testing.T) {
	o, want := closedSample(t)
	s := openRead(t, o)
	_, err := s.View(t.Context(), want.ID)
	must(t, err)
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for name, read := range map[string]func() error{
		"View":   func() error { _, err := s.View(late, want.ID); return err },
		"Load":   func() error { _, err := s.Load(late, want.ID); return err },
		"Events": func() error { _, err := s.Events(late, want.ID, 0, 10); return err },
		"Find":   func() error { _, err := s.Find(late, "@last"); return err },
		"Sync":   func() error { _, _, _, err := s.Sync(late); return err },
		"Verify": func() error { _, err := s.Verify(late, ""); return err },
	} {
		if err := read(); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, context.DeadlineExceeded)
		}
	}
}

// An interrupted write happens completely or not at all.
func TestWritingCutShort(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, s *local.Store, w *local.Writer) error{
		"append": func(ctx context.Context, _ *local.Store, w *local.Writer) error {
			if _, err := w.Stage(ctx, strings.NewReader("content"), 7); err != nil {
				return err
			}
			_, err := w.Append(ctx, started(w, 0, 1), completed(w, 0, 1))
			return err
		},
		"large": func(ctx context.Context, _ *local.Store, w *local.Writer) error {
			_, err := w.Stage(ctx, bytes.NewReader(make([]byte, 70<<10)), 70<<10)
			return err
		},
		"ask": func(ctx context.Context, s *local.Store, w *local.Writer) error {
			return s.Ask(ctx, session.Request{Session: w.Session().ID, Kind: session.RequestCancel})
		},
		"fence": func(ctx context.Context, _ *local.Store, w *local.Writer) error { return w.Fence(ctx) },
		"create": func(ctx context.Context, s *local.Store, _ *local.Writer) error {
			id, err := s.NewID()
			if err != nil {
				return err
			}
			_, err = s.Create(ctx, local.NewSession{ID: id, Task: "cut", Workspace: "/ws", Plan: plan(1), Config: "cfg"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			made := options(t)
			first := open(t, made)
			id := create(t, first, 2).Session().ID
			must(t, first.Close())
			sweep(t, func(ctx context.Context, looks int) error {
				o := made
				o.Home = filepath.Join(t.TempDir(), "home")
				copyHome(t, made.Home, o.Home)
				s := open(t, o)
				w := load(t, s, id)
				before := w.Session().LastSeq
				err := write(ctx, s, w)
				if cerr := s.Close(); cerr != nil {
					t.Error(cerr)
				}
				s = open(t, o)
				defer s.Close()
				got := load(t, s, id)
				if seq := got.Session().LastSeq; seq != before && seq != before+2 {
					t.Errorf("cut after %d looks: the journal ends at %d, want %d or %d", looks, seq, before, before+2)
				}
				if r := verify(t, s); len(r.Problems) > 0 {
					t.Errorf("cut after %d looks: %v", looks, r.Problems)
				}
				return err
			})
		})
	}
}

// If another kind of file is in the place of a file of the store, the error has a code.
func TestObstaclesAreRefused(t *testing.T) {
	block := func(name string) func(t *testing.T, home string) {
		return func(t *testing.T, home string) { must(t, os.MkdirAll(filepath.Join(home, name), 0o700)) }
	}
	file := func(name string) func(t *testing.T, home string) {
		return func(t *testing.T, home string) {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700))
			must(t, os.WriteFile(filepath.Join(home, name), []byte("obstacle"), 0o600))
		}
	}
	for name, tt := range map[string]struct {
		put  func(t *testing.T, home string)
		want session.Code
	}{
		"database_is_a_directory": {block("acode.db"), session.ErrStoreMode},
		"key_is_a_directory":      {block("key"), session.ErrStoreMode},
		"key_is_short":            {file("key"), session.ErrKey},
		"lock_is_a_directory":     {block("create.lock"), session.ErrStoreIO},
		"heads_is_a_file":         {file("heads"), session.ErrStoreIO},
		"blobs_is_a_file":         {file("blobs"), session.ErrStoreIO},
		"home_is_a_file":          {func(t *testing.T, home string) { must(t, os.WriteFile(home, nil, 0o600)) }, session.ErrStoreMode},
		"database_is_text":        {file("acode.db"), session.ErrCorrupt},
		"relative":                {nil, session.ErrConfig},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			if tt.put == nil {
				o.Home = "relative"
			} else {
				tt.put(t, o.Home)
			}
			s, err := local.Open(t.Context(), o)
			if err == nil {
				_ = s.Close()
			}
			if got := session.CodeOf(err); err == nil || got != tt.want {
				t.Errorf("Open: got %v (%s), want %s", err, got, tt.want)
			}
			if left, _ := filepath.Glob(o.Home + "/*"); len(left) > 1 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// Several processes make one store at once, and the first ones fail. They never remove
// the store of another process.
func TestMakingBesideOthersThatFail(t *testing.T) {
	o := options(t)
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond)
			defer cancel()
			if i%3 == 0 {
				ctx = context.Background()
			}
			s, err := local.Open(ctx, o)
			if err != nil {
				if i%3 == 0 {
					t.Errorf("Open: %v", err)
				}
				return
			}
			must(t, s.InPlace())
			must(t, s.Close())
		})
	}
	group.Wait()
	must(t, open(t, o).InPlace())
}
