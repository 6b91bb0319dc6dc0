package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/acode-dev/acode/session"
)

// Apart is the execution of a session by a process of its own, which continues when this
// one ends.
type Apart struct {
	Session   session.ID
	Workspace string
	// Fresh makes the session, with the plan on standard input.
	Fresh bool
	// Params is a file with the params of a fresh session; empty for none.
	Params string
	// After is the epoch of the session before this execution.
	After uint64
	// Override continues although files have changed.
	Override bool
}

// startsWithin is how long a process may take to begin the execution of a session.
const startsWithin = 45 * time.Second

// StartApart makes a session with this id and executes it in a process of its own. plan
// is the text of a plan, and params a JSON object of values; both were checked. It
// returns the session as soon as it is stored, also if an earlier call has begun it.
func (s *Site) StartApart(ctx context.Context, id session.ID, plan []byte, params map[string]string) (*session.Session, error) {
	a := Apart{Session: id, Workspace: s.Workspace, Fresh: true}
	stored := func(*session.Session) bool { return true }
	if sess, err := s.store.View(ctx, id); !errors.Is(err, session.ErrUnknownID) {
		return sess, err
	}
	var files []*os.File
	if len(params) > 0 {
		data, err := json.Marshal(params)
		if err != nil {
			return nil, err
		}
		f, err := scratch(data)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		files, a.Params = append(files, f), "/dev/fd/3"
	}
	return s.apart(ctx, a, plan, files, stored)
}

// ResumeApart continues a session in a process of its own, unless its epoch is above
// after. With override it continues although files have changed. It returns the session
// as soon as that process executes it.
func (s *Site) ResumeApart(ctx context.Context, id session.ID, after uint64, override bool) (*session.Session, error) {
	begun := func(sess *session.Session) bool { return sess.Epoch > after }
	if sess, err := s.store.View(ctx, id); err != nil || begun(sess) {
		return sess, err
	}
	return s.apart(ctx, Apart{Session: id, Workspace: s.Workspace, After: after, Override: override}, nil, nil, begun)
}

// apart starts the process of a, and waits until begun holds for the session.
func (s *Site) apart(ctx context.Context, a Apart, input []byte, files []*os.File, begun func(*session.Session) bool) (*session.Session, error) {
	cmd, err := s.Setup.Apart(a)
	if err != nil {
		return nil, err
	}
	in, err := scratch(input)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := s.outputApart(a.Session)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	from, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, logError(out.Name(), err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals to this process do not end it
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = s.Workspace, in, out, out, files
	if err := cmd.Start(); err != nil {
		return nil, &session.Error{Code: session.ErrInternal, Message: "acode cannot be started; nothing was changed", Cause: Shortage(err), Retryable: true}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its last line says how it ended
	}()
	return s.begun(ctx, a.Session, begun, ended, func() error { return lastError(out, from) })
}

// begun waits until is holds for the session. If the process ends before, it returns the
// error of the process.
func (s *Site) begun(ctx context.Context, id session.ID, is func(*session.Session) bool, ended <-chan struct{}, failure func() error) (*session.Session, error) {
	late := time.NewTimer(startsWithin)
	defer late.Stop()
	for over := false; ; {
		sess, err := s.store.View(ctx, id)
		switch {
		case err == nil && is(sess):
			return sess, nil
		case err != nil && !errors.Is(err, session.ErrUnknownID):
			return nil, err
		case over:
			return nil, failure()
		}
		select {
		case <-ended:
			over = true // look once more
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late.C:
			return nil, &session.Error{Code: session.ErrTimeout, Message: fmt.Sprintf("the session has not begun after %s; it may begin later", startsWithin), Retryable: true,
				Next: session.Do(session.MoveStatus, string(id))}
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// outputApart opens the file in the directory of logs that has the output of the
// processes of a session.
func (s *Site) outputApart(id session.ID) (*os.File, error) {
	dir := s.Settings.Config.Log.Dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, logError(dir, err)
	}
	path := filepath.Join(dir, "apart-"+string(id)+".jsonl")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, logError(path, err)
	}
	return f, nil
}

// scratch returns a file without a name that holds data.
func scratch(data []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "acode-*")
	if err != nil {
		return nil, &session.Error{Code: session.DiskCode(err, session.ErrStoreIO), Message: "a temporary file cannot be made; nothing was changed", Cause: err}
	}
	_, err = f.Write(data)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return nil, &session.Error{Code: session.DiskCode(err, session.ErrStoreIO), Message: "a temporary file cannot be written; nothing was changed", Cause: errors.Join(err, f.Close())}
	}
	return f, nil
}

// lastError returns the error in the last line of out, which a process wrote from a
// place on.
func lastError(out *os.File, from int64) error {
	data, err := io.ReadAll(io.NewSectionReader(out, from, 1<<20))
	if err != nil {
		return logError(out.Name(), err)
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	var last struct {
		Code                 session.Code
		Message, Place, Next string
		Retryable            bool
	}
	if json.Unmarshal(lines[len(lines)-1], &last) != nil || last.Code == "" {
		return &session.Error{Code: session.ErrInternal, Message: "the process that was to execute the session ended; nothing was changed", Place: out.Name()}
	}
	return &session.Error{Code: last.Code, Message: last.Message, Retryable: last.Retryable}
}
