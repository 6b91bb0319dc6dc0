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

// Mode is how a server is stopped.
type Mode string

// The modes, by the names of pg_ctl.
const (
	// Smart waits until all clients have left.
	Smart Mode = "smart"
	// Fast ends the connections and writes a checkpoint.
	Fast Mode = "fast"
	// Immediate ends as in a crash; the next start recovers.
	Immediate Mode = "immediate"
)

// Start starts the server and waits until it accepts connections, recovery included.
func (s *Server) Start() {
	s.tb.Helper()
	if err := s.start(); err != nil {
		s.tb.Fatalf("start: %v", err)
	}
}

// Launch starts the server without waiting.
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

// Ready waits until a server that Launch started accepts connections.
func (s *Server) Ready() {
	s.tb.Helper()
	if err := s.ready(); err != nil {
		s.tb.Fatalf("ready: %v", err)
	}
}

// ready polls the socket until the server answers there or has ended.
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
			// The server's log says more.
			status, _ := s.super.wait(patience)
			return fmt.Errorf("the server ended with status %d: %s", status, s.Log())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server accepts no connections: %w: %s", err, s.Log())
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

// Wait waits until a server that ends by itself is gone, and returns its exit status.
func (s *Server) Wait() int {
	s.tb.Helper()
	status, err := s.super.wait(patience)
	if err != nil {
		s.tb.Fatalf("wait: %v", err)
	}
	return status
}

// alive reports whether the server's first process still runs. Its supervisor removes the
// pid file before another process can get the same pid.
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

// Pid returns the pid of the server's first process, or 0 while it is stopped.
func (s *Server) Pid() int { return s.super.pid }

// Signal sends a signal to the server's first process.
func (s *Server) Signal(sig syscall.Signal) error {
	if s.super.pid == 0 || !s.alive() {
		return errors.New("signal: the server does not run")
	}
	return syscall.Kill(s.super.pid, sig)
}

// Kill9 kills every process of the server at once, as in a failure of its machine, and
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

// unlock removes the empty lock file of a server that was killed while it wrote the file.
// The next server would refuse to start beside it and leave the check to a person.
func (s *Server) unlock() error {
	locks, err := filepath.Glob(filepath.Join(s.Root, ".s.PGSQL.*.lock"))
	for _, name := range append(locks, filepath.Join(s.Root, "data", "postmaster.pid")) {
		if info, serr := os.Stat(name); serr == nil && info.Size() == 0 {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}
