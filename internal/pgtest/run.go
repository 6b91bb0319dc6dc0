package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Mode is how a server is stopped: how much it waits for.
type Mode string

// The modes, by the names of pg_ctl.
const (
	// waits until all clients have left
	Smart Mode = "smart"
	// ends their connections, and writes a checkpoint
	Fast Mode = "fast"
	// ends as in a crash; the next start recovers
	Immediate Mode = "immediate"
)

// Start starts the server and waits until it takes connections, recovery included.
func (s *Server) Start() {
	s.tb.Helper()
	if err := s.start(); err != nil {
		s.tb.Fatalf("start: %v", err)
	}
}

// Launch starts the server and waits for nothing.
func (s *Server) Launch() {
	s.tb.Helper()
	if err := s.begin(); err != nil {
		s.tb.Fatalf("launch: %v", err)
	}
}

func (s *Server) start() error {
	if err := s.begin(); err != nil {
		return err
	}
	return s.ready()
}

func (s *Server) begin() error {
	if s.installed.lib != "" {
		if err := s.upgraded(); err != nil {
			return err
		}
	}
	_, err := s.super.start()
	return err
}

// Ready waits until a server that Launch started takes connections.
func (s *Server) Ready() {
	s.tb.Helper()
	if err := s.ready(); err != nil {
		s.tb.Fatalf("ready: %v", err)
	}
}

// ready looks at the socket until the server answers there, or has ended.
func (s *Server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := connect(ctx, s.SocketURL("postgres", superuser))
		if err == nil {
			return conn.Close(ctx)
		}
		if !s.alive() {
			status, _ := s.super.wait(patience) // its log says more
			return fmt.Errorf("the server ended with status %d: %s", status, s.Log())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server takes no connections: %w: %s", err, s.Log())
		case <-tick.C:
		}
	}
}

// Stop stops the server and waits until it is gone.
func (s *Server) Stop(m Mode) {
	s.tb.Helper()
	if err := s.stop(m); err != nil {
		s.tb.Fatalf("stop: %v", err)
	}
}

func (s *Server) stop(m Mode) error {
	if err := s.Signal(stopSignals()[m]); err != nil {
		return err
	}
	_, err := s.super.wait(patience)
	return err
}

// Wait waits until a server that is about to end by itself is gone, and gives its exit
// status.
func (s *Server) Wait() int {
	s.tb.Helper()
	status, err := s.super.wait(patience)
	if err != nil {
		s.tb.Fatalf("wait: %v", err)
	}
	return status
}

// alive reports whether the server's first process has not ended yet: its supervisor
// removes the file that names it, and until then nobody else has its number.
func (s *Server) alive() bool {
	_, err := os.Stat(filepath.Join(s.Root, "pid"))
	return err == nil
}

func stopSignals() map[Mode]syscall.Signal {
	return map[Mode]syscall.Signal{Smart: syscall.SIGTERM, Fast: syscall.SIGINT, Immediate: syscall.SIGQUIT}
}

// Restart stops the server in a mode and starts it again.
func (s *Server) Restart(m Mode) {
	s.tb.Helper()
	s.Stop(m)
	s.Start()
}

// Pid is the process id of the server's first process; 0 while it is stopped.
func (s *Server) Pid() int { return s.super.pid }

// Signal sends a signal to the server's first process.
func (s *Server) Signal(sig syscall.Signal) error {
	if s.super.pid == 0 || !s.alive() {
		return errors.New("signal: the server does not run")
	}
	return syscall.Kill(s.super.pid, sig)
}

// Kill9 kills every process of the server at once, as a failure of its machine would, and
// waits until all are gone. Start recovers.
func (s *Server) Kill9() {
	s.tb.Helper()
	if s.super.pid == 0 || !s.alive() {
		s.tb.Fatal("kill -9: the server does not run")
	}
	if err := killTree(s.super.pid); err != nil {
		s.tb.Fatalf("kill -9: %v", err)
	}
	if _, err := s.super.wait(patience); err != nil {
		s.tb.Fatalf("kill -9: %v", err)
	}
	if err := s.unlock(); err != nil {
		s.tb.Fatalf("kill -9: %v", err)
	}
}

// unlock removes lock files that a server was killed in the making of: the next one does
// not start beside one that is empty, and leaves it to a person to see that nobody lives.
func (s *Server) unlock() error {
	locks, err := filepath.Glob(filepath.Join(s.Root, ".s.PGSQL.*.lock"))
	for _, name := range append(locks, filepath.Join(s.Root, "data", "postmaster.pid")) {
		if info, serr := os.Stat(name); serr == nil && info.Size() == 0 {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}
