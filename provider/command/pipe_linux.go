package command

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

const (
	// pipeBytes is the size of a pipe, if the kernel grants it. When the pipe is full the
	// command waits.
	pipeBytes = 1 << 20

	// A read of less than little bytes is followed by a pause of an instant, so that
	// small writes are moved together.
	little  = 64 << 10
	instant = 5 * time.Millisecond

	pipeSuffix = "-pipe"
)

// sink moves the output of a command from a pipe to the output file. The pipe has a name,
// so that another process can continue if this one is killed.
//
// The command's end of the pipe is open for reading too. So the pipe has a reader while
// the command lives, and the command never gets SIGPIPE. splice(2) takes bytes from the
// pipe as it gives them to the file: a kill between two calls loses and repeats nothing.
// The lock on the file lets only one process move bytes at a time. A killed process holds
// the lock until its last call is over.
type sink struct {
	path string
	// file is locked while it is written.
	file *os.File
	// end is the end of the pipe for the command; -1 once the command has it.
	end  int
	pipe *os.File

	// stop is nil while no bytes are moved.
	stop chan struct{}
	// done is closed when the sink moves no more bytes.
	done chan struct{}

	// lost is the number of bytes that the file did not take.
	lost int64
	// cause is the reason for lost bytes.
	cause error
}

// openSink makes the file and the pipe at path.
func openSink(path string) (*sink, error) {
	file, err := openOutput(path, 0)
	if err != nil {
		return nil, err
	}
	s := &sink{path: path, file: file, end: -1}
	if err := unix.Mkfifo(path+pipeSuffix, 0o600); err != nil && !errors.Is(err, unix.EEXIST) {
		s.close()
		return nil, &fs.PathError{Op: "mkfifo", Path: path + pipeSuffix, Err: err}
	}
	s.pipe, err = openPipe(path)
	// package os would make the descriptor non-blocking, also for the command
	if err == nil {
		s.end, err = unix.Open(path+pipeSuffix, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	// a limit of the user may keep it smaller
	_, _ = unix.FcntlInt(uintptr(s.end), unix.F_SETPIPE_SZ, pipeBytes)
	return s, nil
}

// openPipe opens the reading end of the pipe that belongs to the file at path.
func openPipe(path string) (*os.File, error) {
	f, err := os.OpenFile(path+pipeSuffix, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := ours(f, fs.ModeNamedPipe); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// begin moves the output of the command, which has its end of the pipe now, until drain.
func (s *sink) begin() {
	s.release()
	// no other process wants the lock while this one lives
	_ = unix.Flock(int(s.file.Fd()), unix.LOCK_EX)
	s.carry()
}

func (s *sink) carry() {
	s.stop, s.done = make(chan struct{}), make(chan struct{})
	if _, err := s.file.Seek(0, io.SeekEnd); err != nil {
		s.cause = err
	}
	go func() {
		defer close(s.done)
		raw, err := s.pipe.SyscallConn()
		for n := 0; err == nil; {
			if n < little && !s.pause() {
				return
			}
			var moved error
			err = raw.Read(func(fd uintptr) bool {
				n, moved = s.move(int(fd), pipeBytes)
				return !errors.Is(moved, unix.EAGAIN)
			})
			// all writers have ended
			if n == 0 || moved != nil {
				return
			}
		}
	}()
}

// pause waits for more bytes, and reports whether to continue.
func (s *sink) pause() bool {
	t := time.NewTimer(instant)
	defer t.Stop()
	select {
	case <-s.stop:
		return false
	case <-t.C:
		return true
	}
}

// move moves up to limit bytes. Once the file has refused some, it drops them. It returns
// 0 when no writer is left, and EAGAIN when the pipe is empty.
func (s *sink) move(pipe, limit int) (n int, err error) {
	for s.cause == nil {
		moved, err := unix.Splice(pipe, nil, int(s.file.Fd()), nil, limit, unix.SPLICE_F_NONBLOCK)
		switch {
		case err == nil || errors.Is(err, unix.EAGAIN):
			return int(moved), err
		case !errors.Is(err, unix.EINTR):
			s.cause = err
		}
	}
	n, err = discard(pipe, limit)
	s.lost += int64(n)
	return n, err
}

func discard(pipe, limit int) (n int, err error) {
	b := make([]byte, min(limit, 64<<10))
	for {
		if n, err = unix.Read(pipe, b); !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// halt stops carry.
func (s *sink) halt() {
	if s.stop == nil {
		return
	}
	close(s.stop)
	// wakes a pending read
	_ = s.pipe.SetReadDeadline(time.Unix(1, 0))
	<-s.done
	s.stop = nil
}

// drain moves the bytes that the pipe holds now and then stops. Processes other than the
// command may continue to write. drain returns how many bytes were lost and why.
func (s *sink) drain() (lost int64, cause error) {
	s.release()
	s.halt()
	raw, err := s.pipe.SyscallConn()
	if err != nil {
		return s.lost, err
	}
	err = raw.Control(func(fd uintptr) {
		left, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		for n := 1; err == nil && left > 0 && n > 0; left -= n {
			n, err = s.move(int(fd), left)
		}
	})
	return s.lost, errors.Join(s.cause, err)
}

// release closes the command's end of the pipe, which the command has inherited by now.
func (s *sink) release() {
	if s.end >= 0 {
		_ = unix.Close(s.end)
		s.end = -1
	}
}

// close closes the file. Processes that the command left behind may continue to write:
// this process drops their output as long as it lives.
func (s *sink) close() {
	s.release()
	s.halt()
	if s.file != nil {
		// it was synced before
		_ = s.file.Close()
	}
	if s.pipe == nil {
		return
	}
	// no command was started here, so the content of the pipe belongs to another process
	if s.done == nil {
		_ = s.pipe.Close()
		return
	}
	_ = s.pipe.SetReadDeadline(time.Time{})
	over := func(fd uintptr) bool {
		for {
			if n, err := discard(int(fd), pipeBytes); n == 0 {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	}
	raw, err := s.pipe.SyscallConn()
	if err != nil {
		return
	}
	done := false
	_ = raw.Control(func(fd uintptr) { done = over(fd) })
	if done {
		_ = s.pipe.Close()
		return
	}
	go func() {
		_ = raw.Read(over)
		_ = s.pipe.Close()
	}()
}

// standby holds the pipes of a command that another process moves, and continues if that
// process is killed.
type standby struct {
	sinks []*sink
	// sure is set if the command was seen to run after the pipes were opened: then no
	// output is lost.
	sure bool
}

// follow acts on the record of the command. It returns true if the caller must look again
// at once, at a command whose supervisor is gone: if the command still runs, nothing was
// lost before the pipes were opened.
func (p *standby) follow(dir string, rec session.CommandRecord) (again bool) {
	switch rec.State {
	case session.CommandRunning, session.CommandUnattended, session.CommandLingering:
		p.sure = p.sinks != nil
		if p.sinks == nil {
			again = p.open(dir, rec.Key) && rec.State != session.CommandRunning
		}
	}
	switch rec.State {
	case session.CommandUnattended, session.CommandLingering, session.CommandUnknown:
		for _, s := range p.sinks {
			s.takeOver()
		}
	}
	// the command is over; processes that it left may continue to write
	if rec.State == session.CommandLingering {
		for _, s := range p.sinks {
			if s.stop != nil {
				_, _ = s.drain()
			}
		}
	}
	return again
}

func (p *standby) open(dir, key string) bool {
	for _, path := range outputPaths(dir, key, true) {
		// on an error there is no pipe
		if pipe, err := openPipe(path); err == nil {
			p.sinks = append(p.sinks, &sink{path: path, end: -1, pipe: pipe})
		}
	}
	return len(p.sinks) > 0
}

// takeOver moves the output of the command, unless another process does.
func (s *sink) takeOver() {
	if s.file != nil {
		return
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		// there is no output file
		return
	}
	if ours(f, 0) != nil || unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		// it is not ours, or another process holds the lock
		_ = f.Close()
		return
	}
	s.file = f
	s.carry()
}

// finish keeps the content of the pipes of a command that has ended, and reports whether
// nothing was lost.
func (p *standby) finish() bool {
	whole := p.sure && len(p.sinks) > 0
	for _, s := range p.sinks {
		if s.file == nil {
			return false
		}
		_, cause := s.drain()
		whole = whole && cause == nil
	}
	for _, s := range p.sinks {
		if whole {
			// the name of the pipe means that output may be lost
			_ = os.Remove(s.path + pipeSuffix)
		}
	}
	return whole
}

func (p *standby) close() {
	for _, s := range p.sinks {
		s.halt()
		// the command has its own ends
		_ = s.pipe.Close()
		if s.file != nil {
			// closing gives up the lock
			_ = s.file.Close()
		}
	}
}
