package campaign_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// swapper exchanges a directory and a symbolic link to the outside until it is stopped.
type swapper struct {
	dir, link string
	swaps     atomic.Int64
	stop      chan struct{}
	done      sync.WaitGroup
}

// racedSite returns a site whose directory "deep" is swapped, and the directory outside.
func racedSite(t testing.TB, plan string) (site, *swapper, string) {
	t.Helper()
	s := newSite(t, scratch(t), plan, map[string]string{"deep/old.txt": "old\n"})
	outside := filepath.Join(s.root, "outside")
	must(t, os.Mkdir(outside, 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "old.txt"), []byte("outside\n"), 0o644))
	w := &swapper{dir: filepath.Join(s.ws(), "deep"), link: filepath.Join(s.root, "link"), stop: make(chan struct{})}
	must(t, os.Symlink(outside, w.link))
	return s, w, outside
}

func (w *swapper) start(t testing.TB) {
	w.done.Go(func() {
		for {
			select {
			case <-w.stop:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, w.dir, unix.AT_FDCWD, w.link, unix.RENAME_EXCHANGE); err != nil {
				t.Errorf("exchange: %v", err)
				return
			}
			// Sometimes both names keep still for about as long as a step takes.
			if w.swaps.Add(1)%8 < 2 {
				<-time.NewTimer(time.Millisecond).C
			}
		}
	})
}

func (w *swapper) end() {
	close(w.stop)
	w.done.Wait()
}

// minSwaps is the least number of renames of a race.
const minSwaps = 2000

// A6: a plan writes, edits, moves and deletes through a directory that becomes a symbolic
// link and back. No byte may land outside.
func TestRenamesUnderAPlan(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\ntask: Write through a directory that moves\non_failure: continue\ntasks:\n")
	for i := range 120 {
		what := fmt.Sprintf("write: {path: deep/new%d.txt, content: \"inside\\n\"}", i)
		switch i % 5 {
		case 1:
			what = fmt.Sprintf("changes: [{write: {path: deep/a%d.txt, content: \"inside\\n\"}}, {write: {path: deep/b%d.txt, content: \"inside\\n\"}}]", i, i)
		case 2:
			what = `write: {path: deep/old.txt, content: "inside\n"}`
		case 3:
			what = fmt.Sprintf("move: {from: deep/new%d.txt, to: deep/moved%d.txt}", i-3, i)
		case 4:
			what = fmt.Sprintf("delete: {path: deep/new%d.txt}", i-4)
		}
		fmt.Fprintf(&b, "  - id: task%d\n    steps:\n      - {id: step, %s}\n", i, what)
	}
	s, w, outside := racedSite(t, b.String())
	before := tree(t, outside)
	w.start(t)
	exits := map[int]int{}
	for round := 0; round < 600 && (round < 10 || w.swaps.Load() < minSwaps); round++ {
		args := []string{"resume", "--on-changes=continue"}
		if round%10 == 0 {
			args = []string{"run", "--plan", s.plan()}
		}
		e := s.acode(t, args...)
		exits[e.exit]++
		if e.exit == 1 || e.exit == 2 || e.exit == 18 {
			t.Errorf("round %d: %v", round, e)
		}
	}
	w.end()
	done := strings.Count(dump(t, s.store()), "'StepCompleted'")
	t.Logf("%d renames, %d steps done, exits %v", w.swaps.Load(), done, exits)
	if d := differences(before, tree(t, outside)); len(d) > 0 {
		t.Errorf("changed outside the workspace: %v", d)
	}
	if done == 0 || w.swaps.Load() < minSwaps {
		t.Errorf("the race shows nothing: %d renames, %d steps done, exits %v", w.swaps.Load(), done, exits)
	}
}

// In the same race, a writer that checks first does write outside. This shows that the
// race is real.
func TestRenamesUnderANaiveWriter(t *testing.T) {
	_, w, outside := racedSite(t, "")
	before := tree(t, outside)
	w.start(t)
	defer w.end()
	eventually(t, "a naive writer has written outside", func() bool {
		for range 100 {
			if real, err := filepath.EvalSymlinks(w.dir); err == nil && real == w.dir {
				// The file may be missing.
				_ = os.WriteFile(filepath.Join(w.dir, "old.txt"), []byte("inside\n"), 0o644)
			}
		}
		return len(differences(before, tree(t, outside))) > 0
	})
}
