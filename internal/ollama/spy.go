package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
)

// spy stands between acode and the server. It keeps the bodies of the requests to the
// model, and holds one reply after its first line.
type spy struct {
	*httptest.Server
	to string
	// hold is the number of the request whose reply is held, from 1
	hold int
	// held is closed when the first line of that reply was passed on
	held chan struct{}

	mu     sync.Mutex
	bodies [][]byte
}

func watch(to string, hold int) *spy {
	s := &spy{to: to, hold: hold, held: make(chan struct{})}
	s.Server = httptest.NewServer(s)
	return s
}

// ServeHTTP implements http.Handler.
func (s *spy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	n := 0
	if r.URL.Path == "/api/chat" {
		s.mu.Lock()
		s.bodies = append(s.bodies, body)
		n = len(s.bodies)
		s.mu.Unlock()
	}
	ask, err := http.NewRequestWithContext(r.Context(), r.Method, s.to+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	lines := bufio.NewReader(answer.Body)
	for {
		line, err := lines.ReadBytes('\n')
		_, _ = w.Write(line) // a client that was killed is gone
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		if err != nil {
			return
		}
		if n == s.hold && n > 0 {
			close(s.held)
			<-r.Context().Done()
			return
		}
	}
}

// asked returns the bodies of the requests.
func (s *spy) asked() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies
}
