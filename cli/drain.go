package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// DrainNews is a line that the delivering process writes for the one that executes: how
// delivery stands has changed.
type DrainNews struct {
	Session session.ID        `json:"session_id,omitempty"` // set: State is that of this session's lane
	State   session.SyncState `json:"state"`
	Reason  string            `json:"reason,omitempty"`
	Pending uint64            `json:"pending"`
}

// drain delivers in the background, in a process of its own: nothing that happens between it
// and the server can hold a step up, and it goes on for a moment when this process is killed
// (FR-049, FR-050). It ends some time after its standard input does.
func (w *work) drain(cancel context.CancelCauseFunc) (stop func()) {
	if w.cfg.Config.Sync.URL == "" {
		return func() {}
	}
	path, err := deliveryProgram()
	if err != nil {
		w.notDelivering(err)
		return func() {}
	}
	args := []string{"sync", "drain"}
	if w.config != "" {
		args = append(args, "--config", w.config)
	}
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C is meant for the session
	command.KeepDescriptors()
	in, ierr := cmd.StdinPipe()
	out, oerr := cmd.StdoutPipe()
	if err := errors.Join(ierr, oerr); err != nil {
		w.notDelivering(err)
		return func() {}
	}
	if err := cmd.Start(); err != nil {
		w.notDelivering(err)
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

func (w *work) notDelivering(err error) {
	w.log.Warn("nothing is delivered in the background", "event", "sync_background_failed", "error", err)
	w.printer.Notice(session.Notice{Kind: session.NoticeWarning, Text: "nothing is delivered in the background: " + err.Error()})
}

// tell says what a person should know: that the server is away, that it is back, and that all
// is delivered. It stops the session when that went on elsewhere.
func (w *work) tell(lines *bufio.Scanner, cancel context.CancelCauseFunc) {
	away, degraded := false, false
	for lines.Scan() {
		var n DrainNews
		if json.Unmarshal(lines.Bytes(), &n) != nil {
			continue
		}
		w.log.Info("delivery", "event", "sync_state", "state", string(n.State), "reason", n.Reason, "events_pending", n.Pending)
		if n.Session != "" {
			if err := forked(n.Session, n.State, n.Reason); err != nil && n.Session == w.writer.Session().ID {
				cancel(err)
			}
			continue
		}
		switch n.State {
		case session.SyncPending, session.SyncSynced:
			if away {
				w.show([]string{fmt.Sprintf("Sync: the server is back, %s to deliver", terminal.Plural(int(n.Pending), "event"))})
			}
			away = false
			if degraded && n.State == session.SyncSynced {
				w.show([]string{"Sync: Up to date ✓, everything is delivered"})
			}
			degraded = degraded && n.State != session.SyncSynced
		default:
			if !away {
				word := "the server is away"
				if session.Degraded(n.State, n.Pending) {
					word = "DEGRADED"
				}
				w.show([]string{fmt.Sprintf("Sync: %s (%s): %s; the session continues", word, n.State, n.Reason)})
			}
			away, degraded = true, true
		}
	}
}
