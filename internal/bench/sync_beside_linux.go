package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

const (
	// besideEvents are pending, more than one window delivers.
	besideEvents  = 100_000
	besideWindows = 8
	// besideSteps is the number of steps of a window.
	besideSteps   = 200
	besideOfAlone = 1.3
)

// besides compares steps while another process drains a backlog of the same store with
// steps alone. The server shares processors and disk with them; in production it has its
// own.
func (b *bench) besides(ctx context.Context, d *delivery) (err error) {
	if err := d.build(ctx, b); err != nil {
		return err
	}
	s, err := b.newSite("beside", nil)
	if err != nil {
		return err
	}
	k, err := newBacklog(ctx, s.home(), 1, besideEvents)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	w, err := newSession(ctx, k.st, 2*besideWindows*besideSteps+1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := start(ctx, w, 0); err != nil {
		return err
	}
	k.sessions = append(k.sessions, w.Session().ID)
	var alone, beside sample
	for range besideWindows {
		if err := window(ctx, w, &alone); err != nil {
			return err
		}
		if err := d.with(ctx, func(on *server) error { return k.windowBeside(ctx, s, on, w, &beside) }); err != nil {
			return err
		}
	}
	b.report.ratio("a step while a backlog is drained / a step alone", beside, alone, besideOfAlone)
	return nil
}

// window does steps, one after another.
func window(ctx context.Context, w *local.Writer, took *sample) error {
	for range besideSteps {
		receipt, intent := drafts(w)
		if err := took.timed(func() error { return step(ctx, w, receipt, intent) }); err != nil {
			return err
		}
	}
	return nil
}

// windowBeside does steps while acode-sync drains, as beside a run.
func (k *backlog) windowBeside(ctx context.Context, s site, on *server, w *local.Writer, took *sample) error {
	if err := k.rewind(ctx); err != nil {
		return err
	}
	return s.syncing(ctx, on, []string{"sync", "drain"}, func(*exec.Cmd) error {
		if err := until(ctx, func() (bool, error) {
			l, err := k.st.Lane(ctx, k.sessions[0])
			return l.Acked > 0, err
		}); err != nil {
			return err
		}
		if err := window(ctx, w, took); err != nil {
			return err
		}
		l, err := k.st.Lane(ctx, k.sessions[0])
		if err == nil && l.Pending() == 0 {
			err = errors.New("the drain ended before the steps")
		}
		return err
	})
}

// syncing runs f while acode-sync delivers the store of s to a server.
func (s site) syncing(ctx context.Context, to *server, args []string, f func(*exec.Cmd) error) error {
	cmd := s.synced(ctx, to, args...)
	// The pipe stays open until Wait closes it. Its end would end the program.
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err := f(cmd)
	// The program has no unfinished work.
	_ = cmd.Process.Kill()
	// The program was killed on purpose, so its status does not matter.
	_ = cmd.Wait()
	return err
}

// synced returns a command of acode-sync for the store of s and a server.
func (s site) synced(ctx context.Context, to *server, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, to.d.program, args...)
	cmd.Dir = s.workspace()
	cmd.Env = append(s.environ(), "ACODE_POSTGRES_URL="+to.role, "ACODE_SYNC_LISTEN=unix:"+s.dir+"/web")
	return cmd
}

// delivered reports whether the server has all events of a session and has verified them.
func (k *backlog) delivered(ctx context.Context, id session.ID) (bool, error) {
	l, err := k.st.Lane(ctx, id)
	if err != nil {
		return false, fmt.Errorf("read lane: %w", err)
	}
	return l.Acked > 0 && l.Pending() == 0 && l.Verified == l.Acked, nil
}
