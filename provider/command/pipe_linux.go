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
	// pipeBytes is what a pipe holds that no one reads, where the kernel grants it. Then
	// the command waits.
	pipeBytes = 1 << 20

	// Little that comes is carried together with what comes within the next instant.
	little  = 64 << 10
	instant = 5 * time.Millisecond

	pipeSuffix = "-pipe"
)

// sink carries what a command writes from a pipe to the file that keeps it. The pipe has
// a name, so that another process can go on where this one was killed.
//
// The end that the command gets is open for reading too: while the command lives its pipe
// has a reader, and it never gets SIGPIPE. Bytes move by splice(2), which takes from the
// pipe what it has given to the file: a kill between two calls loses and repeats nothing.
// The lock on the file lets one process move them at a time, and is held by one that was
// killed until its last call is over.
type sink struct {
	path string
	// locked while it is written
	file *os.File
	// of the pipe, for the command; -1 when it has it
	end  int
	pipe *os.File

	// nil: nothing is carried
	stop chan struct{}
	// closed when nothing more is
	done chan struct{}

	// bytes that the file did not take
	lost int64
	// why
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
	// not by package os, which would let the writes of the command return early
	if err == nil {
		s.end, err = unix.Open(path+pipeSuffix, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	// above a limit of the user it stays smaller
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
		// not ours
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// begin carries until drain what the command writes, which has its end now.
func (s *sink) begin() {
	s.release()
	// no one else wants it while this process lives
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
			// whoever writes has ended
			if n == 0 || moved != nil {
				return
			}
		}
	}()
}

// pause lets more come, and reports whether to go on.
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

// move moves up to limit bytes, and drops them once the file has refused some. It returns
// 0 when no one writes any more, and EAGAIN when there is nothing now.
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

// halt ends what carry began.
func (s *sink) halt() {
	if s.stop == nil {
		return
	}
	close(s.stop)
	// wakes who waits for bytes
	_ = s.pipe.SetReadDeadline(time.Unix(1, 0))
	<-s.done
	s.stop = nil
}

// drain ends what begin began, after it has moved what the pipe holds now: others than
// the command may go on to write. It gives how many bytes were lost and why.
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

// release closes the end that the command has by now.
func (s *sink) release() {
	if s.end >= 0 {
		_ = unix.Close(s.end)
		s.end = -1
	}
}

// close lets go of the file. What the command left behind may write on: this process
// drops it as long as it lives.
func (s *sink) close() {
	s.release()
	s.halt()
	if s.file != nil {
		// what had to be durable is
		_ = s.file.Close()
	}
	if s.pipe == nil {
		return
	}
	// nothing was started here: what the pipe holds is another's
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

// standby holds the pipes of a command that another process carries, and goes on where
// that was killed.
type standby struct {
	sinks []*sink
	// the command was seen to run after they were opened: they lost nothing
	sure bool
}

// follow does what the record of the command asks for. It reports whether to look again
// at once, at a command whose supervisor is gone: it runs still if nothing was lost
// before the pipes were opened.
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
	// it is over; what it left may write on
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
		// else there is none
		if pipe, err := openPipe(path); err == nil {
			p.sinks = append(p.sinks, &sink{path: path, end: -1, pipe: pipe})
		}
	}
	return len(p.sinks) > 0
}

// takeOver carries what the command writes, unless another process does.
func (s *sink) takeOver() {
	if s.file != nil {
		return
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		// there is nothing to keep it
		return
	}
	if ours(f, 0) != nil || unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		// not ours, or not our turn
		_ = f.Close()
		return
	}
	s.file = f
	s.carry()
}

// finish keeps what the pipes of a command that has ended hold, and reports whether
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
			// whose name says that something may be lost
			_ = os.Remove(s.path + pipeSuffix)
		}
	}
	return whole
}

func (p *standby) close() {
	for _, s := range p.sinks {
		s.halt()
		// the command has ends of its own
		_ = s.pipe.Close()
		if s.file != nil {
			// gives the lock up
			_ = s.file.Close()
		}
	}
}
