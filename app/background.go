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

// DrainNews is a line that the delivering process writes for the one that executes: how
// delivery stands has changed.
type DrainNews struct {
	// set: State is that of this session's lane
	Session session.ID        `json:"session_id,omitempty"`
	State   session.SyncState `json:"state"`
	Reason  string            `json:"reason,omitempty"`
	Pending uint64            `json:"pending"`
}

// deliver delivers in the background, in a process of its own: nothing that happens
// between it and the server can hold a step up, and it goes on for a moment when this
// process is killed (FR-049, FR-050). It ends some time after its standard input does.
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
	go func() { _, _ = cmd.Process.Wait() }() // only its entry in the process table is left
	var news sync.WaitGroup
	news.Go(func() {
		w.tell(bufio.NewScanner(out), cancel)
	})
	return func() {
		_ = in.Close()  // which tells it to come to an end
		_ = out.Close() // which ends the news
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

// tell says what a person should know: that the server is away, that it is back, and that
// all is delivered. It stops the session when that went on elsewhere.
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

// plural counts in words: "1 event", "1,200 events".
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
