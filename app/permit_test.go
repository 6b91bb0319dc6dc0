package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acode-dev/acode/session"
)

// Questions and answers of calls at once do not meet in the journal: each call runs once,
// after its own yes.
func TestCallsAtOnceAreAsked(t *testing.T) {
	dir := newWorkspace(t)
	c := connect(t, dir)
	defer c.close()
	c.site.Settings.Config.Approvals.Command = "ask"
	var all sync.WaitGroup
	for i := range 6 {
		call := runCall(fmt.Sprintf("echo %d >> ledger", i))
		all.Go(func() {
			for {
				_, err := c.Do(context.Background(), call, 30*time.Second)
				var asked *AskedError
				if errors.As(err, &asked) {
					err = c.Answer(context.Background(), asked, Answer{Granted: true, By: "ann"})
				} else if err == nil {
					return
				}
				if err != nil && !errors.Is(err, session.ErrApproval) {
					t.Errorf("call %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	ledger, err := os.ReadFile(filepath.Join(dir, "ws", "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		if strings.Count(string(ledger), fmt.Sprintf("%d\n", i)) != 1 {
			t.Errorf("ledger: got %q, want %d once", ledger, i)
		}
	}
}

// A command that only reads runs with no right to write, also where every class is
// allowed.
func TestReadingCommandIsConfined(t *testing.T) {
	c := connect(t, newWorkspace(t))
	defer c.close()
	c.site.Agent = session.Confined
	judge, err := c.site.judges()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]session.Confinement{"ls": session.ConfinedReading, "touch a": session.Confined, "curl x": session.ConfinedOnline} {
		if got := judge(session.CallsStep(), runCall(text).Step, ""); got.Ask || got.Deny || got.Confine != want {
			t.Errorf("%s: got %+v, want %s", text, got, want)
		}
	}
}
