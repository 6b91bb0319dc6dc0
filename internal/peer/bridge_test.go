package peer_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"testing"
)

// bridge gives clients of HTTP a server that speaks over standard input and output: one
// process for each session. It passes the lines on as they are.
type bridge struct {
	t     *testing.T
	begin func() *exec.Cmd

	mu       sync.Mutex
	sessions map[string]*pipe
}

// pipe is the process of a session. One request at a time uses it.
type pipe struct {
	mu  sync.Mutex
	in  io.WriteCloser
	out *bufio.Reader
}

// newBridge returns the URL of a bridge that ends with the test.
func newBridge(t *testing.T, begin func() *exec.Cmd) string {
	t.Helper()
	s := httptest.NewServer(&bridge{t: t, begin: begin, sessions: map[string]*pipe{}})
	t.Cleanup(s.Close)
	return s.URL + "/mcp"
}

const sessionHeader = "Mcp-Session-Id"

// ServeHTTP implements http.Handler: the streamable transport without its stream of
// messages that answer no request.
func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close") // the client would wait before it ends
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if err != nil || json.Unmarshal(body, &m) != nil {
		http.Error(w, "not a message", http.StatusBadRequest)
		return
	}
	p, err := b.session(w, r.Header.Get(sessionHeader))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.in.Write(append(body, '\n')); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if m.ID == nil || m.Method == "" {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		line, err := p.out.ReadBytes('\n')
		if err != nil {
			b.t.Errorf("the server ended: %v", err)
			return
		}
		fmt.Fprintf(w, "event: message\ndata: %s\n", line)
		var answer struct{ ID json.RawMessage }
		if json.Unmarshal(line, &answer) == nil && string(answer.ID) == string(m.ID) {
			return
		}
	}
}

// session returns the process of a session, or that of a new one if id is empty.
func (b *bridge) session(w http.ResponseWriter, id string) (*pipe, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id != "" {
		if p := b.sessions[id]; p != nil {
			return p, nil
		}
		return nil, fmt.Errorf("no session %s", id)
	}
	cmd := b.begin()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b.t.Cleanup(func() {
		_ = in.Close() // the process may have ended
		if err := cmd.Wait(); err != nil {
			b.t.Errorf("the server: %v", err)
		}
	})
	id = fmt.Sprint("session-", len(b.sessions)+1)
	b.sessions[id] = &pipe{in: in, out: bufio.NewReader(out)}
	w.Header().Set(sessionHeader, id)
	return b.sessions[id], nil
}
