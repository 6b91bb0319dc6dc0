package command

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// The operations on the socket, one JSON object each. hello, run, terminate and claimed
// go to the supervisor, which answers with the same word. The supervisor sends done by
// itself.
const (
	opHello     = "hello"
	opRun       = "run"
	opTerminate = "terminate"
	opClaimed   = "claimed"
	opDone      = "done"
	// opBusy means that another supervisor serves the session.
	opBusy = "busy"
)

type message struct {
	Op string `json:"op"`
	// ID connects a request and its answer.
	ID      uint64     `json:"id,omitempty"`
	Session session.ID `json:"session,omitempty"`
	Epoch   uint64     `json:"epoch,omitempty"`
	Key     string     `json:"key,omitempty"`
	Request *request   `json:"request,omitempty"`
	// Share is part of a run request: see Config.
	Share bool `json:"share,omitempty"`
	// Known is part of an answer to claimed: the key was claimed here.
	Known   bool     `json:"known,omitempty"`
	Failure *failure `json:"failure,omitempty"`
}

// request is a session.CommandRequest on its way through a socket. A variable may hold
// bytes that are not text, which JSON would replace.
type request struct {
	session.CommandRequest
	Env [][]byte `json:"env"`
}

func toRequest(req session.CommandRequest) *request {
	r := &request{CommandRequest: req, Env: make([][]byte, len(req.Env))}
	for i, v := range req.Env {
		r.Env[i] = []byte(v)
	}
	return r
}

func (r *request) command() session.CommandRequest {
	req := r.CommandRequest
	req.Env = make([]string, len(r.Env))
	for i, v := range r.Env {
		req.Env[i] = string(v)
	}
	return req
}

// failure is a session.Error on its way through a socket.
type failure struct {
	Code      session.Code `json:"code"`
	Message   string       `json:"message"`
	Place     string       `json:"place,omitempty"`
	Next      session.Hint `json:"next,omitzero"`
	Retryable bool         `json:"retryable,omitempty"`
	Cause     string       `json:"cause,omitempty"`
	// Shortage is the limit of this machine or process that caused the failure; 0 if none
	// did.
	Shortage unix.Errno `json:"shortage,omitempty"`
}

// limit is a shortage that kept a supervisor from claiming a command: its message, and
// the error of the system.
type limit struct {
	said string
	no   unix.Errno
}

// Error implements error.
func (l limit) Error() string { return l.said }

// Unwrap returns the shortage.
func (l limit) Unwrap() error { return l.no }

func toFailure(err error) *failure {
	if err == nil {
		return nil
	}
	var no unix.Errno
	// a shortage is the cause, wherever it occurred
	if errors.As(shortage(err), &no) {
		return &failure{Code: session.ErrInternal, Message: err.Error(), Retryable: true, Shortage: no}
	}
	var e *session.Error
	if !errors.As(err, &e) {
		return &failure{Code: session.CodeOf(err), Message: err.Error()}
	}
	f := &failure{Code: e.Code, Message: e.Message, Place: e.Place, Next: e.Next, Retryable: e.Retryable}
	if e.Cause != nil {
		f.Cause = e.Cause.Error()
	}
	return f
}

func (f *failure) err() error {
	if f == nil {
		return nil
	}
	if f.Shortage != 0 {
		return limit{f.Message, f.Shortage}
	}
	e := &session.Error{Code: f.Code, Message: f.Message, Place: f.Place, Next: f.Next, Retryable: f.Retryable}
	if f.Cause != "" {
		e.Cause = errors.New(f.Cause)
	}
	return e
}
