package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

// launch lets the test binary start the programs of a tracer.
func launch() {
	crash.LauncherMain()
	if home := os.Getenv("LOCAL_TEST_DRAIN"); home != "" {
		drainProcess(home)
	}
	if home := os.Getenv("LOCAL_TEST_MAKE"); home != "" {
		makeProcess(home)
	}
	if home := os.Getenv("LOCAL_TEST_OUTBOX"); home != "" {
		outboxProcess(home)
	}
}

// drainProcess delivers beside a writer of the same process, and prints its progress.
func drainProcess(home string) {
	ctx := context.Background()
	s, err := local.Open(ctx, local.Options{Home: home, Now: newClock().now})
	check(err)
	id := session.ID(os.Getenv("LOCAL_TEST_SESSION"))
	w, err := s.Load(ctx, id)
	check(err)
	o, err := s.Outbox(ctx)
	check(err)
	if os.Getenv("LOCAL_TEST_SYNC") == "off" { // the wrong setting
		_, err := o.OutboxPragma(ctx, "synchronous = 0")
		_ = err // it returns no row
	}
	acked := uint64(0)
	save := func() {
		acked++
		check(o.SaveLane(ctx, session.Lane{Session: id, Acked: acked, Remote: serverA}))
	}
	step := func() {
		_, err := w.Append(ctx, tick())
		check(err)
	}
	tell := func(what string) {
		fmt.Printf("%s %d %d\n", what, w.Session().LastSeq, pages(s))
	}
	if os.Getenv("LOCAL_TEST_FIRST") == "drainer" {
		for range 10 {
			save()
		}
		tell("drained")
		os.Exit(0)
	}
	step()
	save()
	tell("begun")
	for range 20 {
		step()
	}
	tell("alone")
	for range 20 {
		save()
		check(o.Beat(ctx, session.Heartbeat{BeatUS: int64(acked)}))
		_, err := o.Delivery(ctx, id, acked, 3, 1<<20)
		check(err)
	}
	tell("drained")
	for range 20 {
		step()
		save()
	}
	tell("both")
	os.Exit(0)
}

// pages returns how many pages the connection that writes has written.
func pages(s *local.Store) int {
	n, err := s.PagesWritten(context.Background())
	if err != nil {
		panic(err)
	}
	return n
}

// trace runs drainProcess on home.
func trace(t *testing.T, home string, id session.ID, env ...string) []crash.Call {
	t.Helper()
	return run(t, home, crash.Spec{Env: append(env, "LOCAL_TEST_DRAIN="+home, "LOCAL_TEST_SESSION="+string(id))}, 0)
}

// told parses an output of drainProcess.
func told(c crash.Call) (what string, seq uint64, pages int, ok bool) {
	if c.Kind != crash.KindAck || c.FD != 1 {
		return "", 0, 0, false
	}
	n, err := fmt.Sscan(string(c.Data), &what, &seq, &pages)
	return what, seq, pages, err == nil && n == 3
}

// FR-050: a drainer's commits cost no sync. A step costs one sync and the same pages with
// and without a drainer.
func TestDrainingCostsNoSync(t *testing.T) {
	o, want := closedSample(t)
	syncs, written := map[string]int{}, map[string]int{}
	n, before := 0, 0
	for _, c := range trace(t, o.Home, want.ID) {
		if c.Kind == crash.KindSync {
			n++
		}
		if what, _, pages, ok := told(c); ok {
			syncs[what], written[what] = n, pages-before
			n, before = 0, pages
		}
	}
	if syncs["begun"] < 2 || syncs["alone"] != 20 || syncs["drained"] != 0 || syncs["both"] != 20 {
		t.Errorf("syncs: got %v; want one for each of 20 steps alone and beside a drainer, none for a drainer", syncs)
	}
	// One page for the event and one for the session; now and then a page of events is
	// full.
	if written["alone"] < 40 || written["alone"] > 44 || written["both"] > 44 || written["drained"] != 0 {
		t.Errorf("pages: got %v; want two for each of 20 steps", written)
	}
}

// A drainer writes first into a restarted log. A power cut at any point loses nothing
// acknowledged. Without the sync of the log's header it does.
func TestPowerCutWhileDraining(t *testing.T) {
	for _, tt := range []struct {
		sync  string
		whole bool
	}{{"normal", true}, {"off", false}} {
		t.Run(tt.sync, func(t *testing.T) {
			o, want := closedSample(t)
			must(t, os.Remove(filepath.Join(o.Home, "ballast"))) // not needed here, and every image would contain it
			initial, err := crash.Snapshot(o.Home)
			must(t, err)
			calls := trace(t, o.Home, want.ID, "LOCAL_TEST_FIRST=drainer", "LOCAL_TEST_SYNC="+tt.sync)
			judged, bad := 0, error(nil)
			for image, err := range crash.Images(initial, calls, crash.Options{Random: -1}) {
				must(t, err)
				if !drained(image.Calls) {
					continue
				}
				at := o
				at.Home = filepath.Join(t.TempDir(), strconv.Itoa(judged))
				must(t, image.Materialize(at.Home))
				judged++
				if err := judgeImage(at, want, image.Calls); err != nil {
					bad = fmt.Errorf("%v: %w", image, err)
					break
				}
				must(t, os.RemoveAll(at.Home))
			}
			if (bad == nil) != tt.whole || judged < 10 {
				t.Errorf("%d images: got %v, want whole: %v", judged, bad, tt.whole)
			}
			t.Logf("%d images: %v", judged, bad)
		})
	}
}

// drained reports whether a cut lies after a write of the drainer that no sync followed.
func drained(calls []crash.Call) bool {
	if len(calls) == 0 {
		return false
	}
	what, _, _, ok := told(calls[len(calls)-1])
	return ok && what == "drained"
}

func judgeImage(o local.Options, want *session.Session, calls []crash.Call) error {
	acknowledged := want.LastSeq
	for _, c := range calls {
		if _, seq, _, ok := told(c); ok {
			acknowledged = seq
		}
	}
	s, err := local.OpenRead(context.Background(), o)
	if err != nil {
		return err
	}
	defer s.Close()
	w, err := s.Load(context.Background(), want.ID)
	if err != nil {
		return err
	}
	if got := w.Session().LastSeq; got < acknowledged {
		return fmt.Errorf("the store ends at %d, and %d was acknowledged", got, acknowledged)
	}
	return nil
}
