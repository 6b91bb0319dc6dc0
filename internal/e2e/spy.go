package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// spySwitch is the first argument of this program when it stands between a client and
// acode. Then follow the log, the number of the answer after which it kills the client,
// 0 for none, the delay in milliseconds, and acode's command line.
const spySwitch = "spy"

// spied is a line of the spy's log.
type spied struct {
	// From is client or server; it is environment for the first line.
	From string            `json:"from"`
	Line json.RawMessage   `json:"line,omitempty"`
	Env  map[string]string `json:"env,omitempty"`
}

// spy passes lines on in both directions and logs them.
type spy struct {
	mu    sync.Mutex
	log   *json.Encoder
	calls []string
}

func spyMain(args []string) error {
	if len(args) < 4 {
		return errors.New("spy: too few arguments")
	}
	log, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	after, err := strconv.Atoi(args[1])
	delay, err2 := strconv.Atoi(args[2])
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	s := &spy{log: json.NewEncoder(log)}
	s.note(spied{From: "environment", Env: environment()})
	cmd := exec.Command(args[3], args[4:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		s.pass("client", os.Stdin, in, nil)
		_ = in.Close() // the server ends
	}()
	answers := 0
	s.pass("server", out, os.Stdout, func(line []byte) {
		if !s.answers(line) {
			return
		}
		if answers++; answers == after {
			client := os.Getppid()
			<-time.After(time.Duration(delay) * time.Millisecond)
			kill(client)
		}
	})
	return cmd.Wait()
}

func environment() map[string]string {
	out := map[string]string{}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		out[name] = value
	}
	return out
}

func (s *spy) note(l spied) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// without the line the log is shorter, and its reader finds fewer calls
	_ = s.log.Encode(l)
}

// pass passes lines on; then gets each one afterwards.
func (s *spy) pass(from string, in io.Reader, out io.Writer, then func(line []byte)) {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if json.Valid(line) {
			s.note(spied{From: from, Line: line})
		}
		s.called(from, line)
		if _, err := out.Write(line); err != nil {
			return
		}
		if then != nil {
			then(line)
		}
	}
}

// message is a message of the protocol.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name       string         `json:"name"`
		Meta       map[string]any `json:"_meta"`
		ClientInfo struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"clientInfo"`
	} `json:"params"`
}

func (s *spy) called(from string, line []byte) {
	var m message
	if from == "client" && json.Unmarshal(line, &m) == nil && m.Method == "tools/call" {
		s.mu.Lock()
		s.calls = append(s.calls, string(m.ID))
		s.mu.Unlock()
	}
}

// answers reports whether a line answers a call.
func (s *spy) answers(line []byte) bool {
	var m message
	if json.Unmarshal(line, &m) != nil || m.Method != "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.calls, string(m.ID))
}

// spiedLog reads a log.
func spiedLog(path string) (out []spied, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	for d := json.NewDecoder(f); ; {
		var l spied
		switch err := d.Decode(&l); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return out, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, l)
	}
}
