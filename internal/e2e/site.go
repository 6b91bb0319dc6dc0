package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/acode-dev/acode/provider/script/server"
)

// site is the place of one run: directories, and a server that plays the model.
type site struct {
	dir, ws, home string
	url           string
	// programs has acode and acode-agent; modules has the clients.
	programs, modules string
	// spy is put before acode's command line; empty for none.
	spy []string
	// own says that the client uses its own tools, without acode.
	own bool
	// parallel lets Codex make the calls of one message at once, also those that change
	// something. Claude Code never does that.
	parallel bool

	listener net.Listener
	log      *os.File

	mu sync.Mutex
	n  int
}

func newSite(dir string, o options, m *model) (*site, error) {
	s := &site{dir: dir, ws: filepath.Join(dir, "ws"), home: filepath.Join(dir, "home"), programs: o.programs, modules: o.modules, own: m.shell != ""}
	for _, d := range []string{s.ws, s.home} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if s.log, err = os.Create(filepath.Join(dir, "client.log")); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	s.url = "http://" + s.listener.Addr().String()
	go func() {
		// It ends when the listener is closed.
		_ = http.Serve(s.listener, server.New(server.Options{Model: m.next, Seen: s.keep}))
	}()
	return s, nil
}

// keep keeps a request for a person who looks for the cause of a failure.
func (s *site) keep(r *http.Request, body []byte) {
	if r.Method != http.MethodPost {
		return
	}
	s.mu.Lock()
	s.n++
	n := s.n
	s.mu.Unlock()
	_ = os.WriteFile(filepath.Join(s.dir, fmt.Sprintf("request-%03d.json", n)), body, 0o600)
}

func (s *site) close() error { return errors.Join(s.listener.Close(), s.log.Close()) }

// watch closes moment when the ledger has the trial's line, after the delay. It ends at
// the latest with the program.
func (s *site) watch(t trial, moment chan<- struct{}) {
	for {
		raw, _ := os.ReadFile(filepath.Join(s.ws, ledger)) // it may not be there yet
		if bytes.Count(raw, []byte("\n")) >= t.line {
			break
		}
		<-time.After(2 * time.Millisecond)
	}
	<-time.After(t.delay)
	close(moment)
}

// environ is the environment of a client.
func (s *site) environ(more ...string) []string {
	return append([]string{"HOME=" + s.home, "PATH=" + os.Getenv("PATH"), "ACODE_HOME=" + filepath.Join(s.dir, "state"), "ACODE_KEY_KEYRING=false"}, more...)
}

// acode is the command line of the server of tools.
func (s *site) acode() []string {
	args := append([]string{}, s.spy...)
	return append(args, filepath.Join(s.programs, "acode"), "mcp", "--tools", "--allow", "files,commands", "--patience", "1s")
}

// command makes a command whose output goes to the log of the site.
func (s *site) command(name string, environ []string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = s.ws, environ
	cmd.Stdout, cmd.Stderr = s.log, s.log
	return cmd
}

func (s *site) write(name string, v any) (string, error) {
	path := filepath.Join(s.dir, name)
	if text, ok := v.(string); ok {
		return path, os.WriteFile(path, []byte(text), 0o600)
	}
	raw, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, raw, 0o600)
}

// logged returns the output of the client; empty if it cannot be read.
func (s *site) logged() string {
	raw, _ := os.ReadFile(s.log.Name()) // see above
	return string(raw)
}
