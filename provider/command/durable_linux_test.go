package command_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// C1, C4: a power cut does not undo a reported result. The claim and its name are durable
// before the command starts. The output is durable before the end is recorded, and that
// record before any client hears of it.
func TestOrderOfDurableCalls(t *testing.T) {
	s := newStage(t)
	root := filepath.Dir(s.ws)
	req := s.sh(s.key, "echo done > out")
	req.Volatile = false
	reqs, err := json.Marshal([]session.CommandRequest{req})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(root, "requests")
	if err := os.WriteFile(list, reqs, 0o600); err != nil {
		t.Fatal(err)
	}
	var calls []crash.Call
	var said bytes.Buffer
	tracer := crash.NewTracer()
	defer tracer.Close()
	_, err = tracer.Run(t.Context(), crash.Spec{
		Argv: []string{os.Args[0]}, Dir: root, Roots: []string{root}, Stdout: &said, Stderr: &said,
		Env:    []string{"CMDTEST_ROLE=client", "CMDTEST_DIR=" + s.dir, "CMDTEST_REQS=" + list, "GORACE=atexit_sleep_ms=0"},
		Record: func(c crash.Call) { calls = append(calls, c) },
	})
	if err == nil {
		_, err = tracer.Wait(t.Context())
	}
	if err != nil || !strings.Contains(said.String(), s.key+" finished 0") {
		t.Fatalf("client: %v: %s", err, said.String())
	}
	claim := command.ClaimPath(s.dir, s.key)
	at := 0
	follows := func(what string, is func(crash.Call) bool) crash.Call {
		t.Helper()
		n := slices.IndexFunc(calls[at:], func(c crash.Call) bool { return c.OK() && is(c) })
		if n < 0 {
			var lines []string
			for _, c := range calls {
				lines = append(lines, c.String())
			}
			t.Fatalf("%s is not where it should be:\n%s", what, strings.Join(lines, "\n"))
		}
		at += n + 1
		return calls[at-1]
	}
	named := slices.IndexFunc(calls, func(c crash.Call) bool { return c.Kind == crash.KindRename && c.NewPath == claim })
	if named < 0 {
		t.Fatal("no claim was named")
	}
	temp := calls[named].Path
	follows("the sync of the claim", func(c crash.Call) bool { return c.Kind == crash.KindSync && c.Path == temp })
	follows("its name", func(c crash.Call) bool { return c.Kind == crash.KindRename && c.NewPath == claim })
	follows("the sync of its name", func(c crash.Call) bool { return c.Kind == crash.KindSync && c.Path == s.dir })
	follows("the command", func(c crash.Call) bool {
		return c.Kind == crash.KindExec && bytes.Contains(c.Data, []byte("echo done"))
	})
	follows("the output", func(c crash.Call) bool { return c.Kind == crash.KindWrite && c.Path == filepath.Join(s.ws, "out") })
	follows("the sync of that", func(c crash.Call) bool { return c.Kind == crash.KindSyncAll })
	follows("the record of its end", func(c crash.Call) bool {
		return c.Kind == crash.KindWrite && c.Path == claim && c.Offset == command.ExitAt
	})
	follows("the sync of that record", func(c crash.Call) bool { return c.Kind == crash.KindSync && c.Path == claim })
	unlocks := func(c crash.Call) bool {
		return c.Kind == crash.KindLock && c.Path == claim && c.Flags&unix.LOCK_UN != 0 && c.PID == calls[named].PID
	}
	if n := slices.IndexFunc(calls[:at], unlocks); n >= 0 {
		t.Errorf("the supervisor gave the lock up before the record was durable: %v", calls[n])
	}
	follows("the answer", func(c crash.Call) bool { return c.Kind == crash.KindAck })
}
