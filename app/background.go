package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// DrainNews is one line from the delivering process to the executing process. It reports
// a change in the state of delivery.
type DrainNews struct {
	// Session is set if State is the state of this session's lane.
	Session session.ID        `json:"session_id,omitempty"`
	State   session.SyncState `json:"state"`
	Reason  string            `json:"reason,omitempty"`
	Pending uint64            `json:"pending"`
}

// deliver starts background delivery in a process of its own. Delivery therefore never
// delays a step, and it continues for a moment if this process is killed (FR-049,
// FR-050). The delivering process ends some time after its standard input closes.
func (w *work) deliver(cancel context.CancelCauseFunc) (stop func()) {
	if w.Settings.Config.Sync.URL == "" || w.Deliver == nil {
		return func() {}
	}
	cmd, in, out, err := w.startDelivery()
	if err != nil {
		w.Log.Warn("nothing is delivered in the background", "event", "sync_background_failed", "error", err)
		w.warn("nothing is delivered in the background: " + err.Error())
		return func() {}
	}
	go func() { _, _ = cmd.Process.Wait() }() // reaps the process
	var news sync.WaitGroup
	news.Go(func() {
		w.tell(bufio.NewScanner(out), cancel)
	})
	return func() {
		_ = in.Close()  // asks the process to end
		_ = out.Close() // ends the goroutine that reads news
		news.Wait()
	}
}

func (w *work) startDelivery() (cmd *exec.Cmd, in io.Closer, out io.ReadCloser, err error) {
	args, err := w.Deliver()
	if err != nil {
		return nil, nil, nil, err
	}
	cmd = exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C is meant for the session
	command.KeepDescriptors()
	in, err = cmd.StdinPipe()
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	return cmd, in, out, err
}

// tell shows the changes that concern a person: the server is away, the server is back,
// all is delivered. It stops the session if another copy of the session has continued.
func (w *work) tell(lines *bufio.Scanner, cancel context.CancelCauseFunc) {
	away, degraded := false, false
	for lines.Scan() {
		var n DrainNews
		if json.Unmarshal(lines.Bytes(), &n) != nil {
			continue
		}
		w.Log.Info("delivery", "event", "sync_state", "state", string(n.State), "reason", n.Reason, "events_pending", n.Pending)
		if n.Session != "" {
			if err := forked(n.Session, n.State, n.Reason); err != nil && n.Session == w.writer.Session().ID {
				cancel(err)
			}
			continue
		}
		switch n.State {
		case session.SyncPending, session.SyncSynced:
			if away {
				w.info(fmt.Sprintf("Sync: the server is back, %s to deliver", plural(n.Pending, "event")))
			}
			away = false
			if degraded && n.State == session.SyncSynced {
				w.info("Sync: Up to date ✓, everything is delivered")
			}
			degraded = degraded && n.State != session.SyncSynced
		default:
			if !away {
				word := "the server is away"
				if session.Degraded(n.State, n.Pending) {
					word = "DEGRADED"
				}
				w.info(fmt.Sprintf("Sync: %s (%s): %s; the session continues", word, n.State, n.Reason))
			}
			away, degraded = true, true
		}
	}
}

// plural returns n with its noun: "1 event", "1,200 events".
func plural(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	digits := strconv.FormatUint(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits + " " + noun + "s"
}
