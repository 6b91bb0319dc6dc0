package scripted

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Config is the configuration of a client. It is stored as config.json in the client's
// directory.
type Config struct {
	// Server is the command line of the server of tools.
	Server []string `json:"server"`
	// Workspace is the working directory of the server.
	Workspace string `json:"workspace"`
	// Forget is how much of the end of its transcript a client loses when it is killed.
	Forget time.Duration `json:"forget"`
	// Cut makes the client kill itself after so many bytes of an answer, or at its end; 0
	// means never. Nth is the number of that answer, from 1.
	Cut int `json:"cut"`
	Nth int `json:"nth"`
	// Settle is that of the server.
	Settle time.Duration `json:"settle"`
}

// Entry is one line of the transcript: the result of a call.
type Entry struct {
	Call    int       `json:"call"`
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome"`
	// Handle names the operation.
	Handle string `json:"handle"`
	// Recovered says that the server answered from its record.
	Recovered bool   `json:"recovered"`
	Text      string `json:"text"`
	// Told and Unknown count these answers before the result.
	Told    int `json:"told"`
	Unknown int `json:"unknown"`
	// Stale counts records that the client got for its new wish.
	Stale int `json:"stale"`
	// Server is the number of the server that answered, as its pid.
	Server int `json:"server"`
}

// Switch is the first argument of a program that acts as a client. The next one is the
// client's directory.
const Switch = "scripted-client"

// Main acts as a client and exits, if the arguments of this program say so. Otherwise
// it returns.
func Main(now func() time.Time) {
	if len(os.Args) != 3 || os.Args[1] != Switch {
		return
	}
	if err := play(os.Args[2], now); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// client is one process of the agent.
type client struct {
	Config
	dir    string
	now    func() time.Time
	script []Call
	// calls that were made, bytes of the last answer, and those of the longest one
	calls, read, longest int

	server *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	id     int
	lives  int
}

// maxServers is how often a client starts its server again.
const maxServers = 8

func play(dir string, now func() time.Time) error {
	c := &client{dir: dir, now: now, script: Script()}
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err == nil {
		err = json.Unmarshal(raw, &c.Config)
	}
	if err != nil {
		return err
	}
	done, err := c.remember()
	if err != nil {
		return err
	}
	for i := range c.script {
		if done[i] {
			continue
		}
		e, err := c.carryOut(i)
		if err != nil {
			return fmt.Errorf("call %d: %w", i+1, err)
		}
		if err := c.note(e); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ended), []byte(strconv.Itoa(c.longest)), 0o600); err != nil {
		return err
	}
	return c.close()
}

// ended is the file that a client makes after the last call of its script.
const ended = "ended"

// Longest returns the bytes of the longest answer of a client that was never killed.
func Longest(dir string) (int, error) {
	raw, err := os.ReadFile(filepath.Join(dir, ended))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(raw))
}

// remember reads the transcript and drops the entries that a kill made it forget.
func (c *client) remember() (map[int]bool, error) {
	entries, err := Transcript(c.dir)
	if err != nil {
		return nil, err
	}
	killed := time.Time{}
	if _, err := os.Stat(filepath.Join(c.dir, ended)); err == nil {
		c.Forget = 0 // it has kept its transcript before it ended in order
	}
	if raw, err := os.ReadFile(filepath.Join(c.dir, "killed")); err == nil {
		if killed, err = time.Parse(time.RFC3339Nano, string(raw)); err != nil {
			return nil, err
		}
	}
	done := map[int]bool{}
	var kept []Entry
	for _, e := range entries {
		if !killed.IsZero() && e.At.After(killed.Add(-c.Forget)) && c.Forget > 0 {
			continue
		}
		done[e.Call] = true
		kept = append(kept, e)
	}
	var b strings.Builder
	for _, e := range kept {
		raw, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		b.Write(append(raw, '\n'))
	}
	whole := filepath.Join(c.dir, "transcript.new")
	if err := os.WriteFile(whole, []byte(b.String()), 0o600); err != nil {
		return nil, err
	}
	return done, os.Rename(whole, filepath.Join(c.dir, "transcript"))
}

// Transcript reads the transcript of a client. It drops a line that a kill cut.
func Transcript(dir string) (out []Entry, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, "transcript"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(raw)) {
		var e Entry
		if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &e) == nil {
			out = append(out, e)
		}
	}
	return out, err
}

func (c *client) note(e Entry) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(c.dir, "transcript"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(raw, '\n'))
	return errors.Join(err, f.Close())
}

// answer is the result of a call of a tool.
type answer struct {
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	IsError    bool `json:"isError"`
	Structured struct {
		Outcome   string `json:"outcome"`
		Recovered bool   `json:"recovered"`
		Handle    string `json:"handle"`
		Code      string `json:"code"`
		Retryable bool   `json:"retryable"`
	} `json:"structuredContent"`
}

func (a answer) text() string {
	var b strings.Builder
	for _, c := range a.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

// carryOut makes a call until it has a result.
func (c *client) carryOut(i int) (Entry, error) {
	want, e := c.script[i], Entry{Call: i}
	if want.Of > 0 {
		want.Args = map[string]any{"handle": c.handle(want.Of - 1)}
	}
	tool, args := want.Tool, want.Args
	if want.Rests {
		<-time.After(c.Settle + resting)
	}
	for range 100 {
		a, err := c.tool(tool, args)
		if err != nil {
			if err = c.again(err); err != nil {
				return e, err
			}
			tool, args = want.Tool, want.Args
			continue
		}
		switch s := a.Structured; {
		case s.Outcome == "told":
			e.Told++
			<-time.After(thinking) // a call made at once would belong to the same message
			continue
		case s.Outcome == "running" && want.Stops && c.inLedger(i):
			tool, args = "stop_command", map[string]any{"handle": s.Handle}
			continue
		case s.Outcome == "running":
			tool, args = "wait_command", map[string]any{"handle": s.Handle}
			continue
		case s.Outcome == "unknown" && want.Of == 0:
			e.Unknown++
			<-time.After(500 * time.Millisecond) // the command may still run
			if c.inLedger(i) {                   // a person looks, and knows that it happened
				e.At, e.Outcome, e.Handle, e.Text = c.now(), s.Outcome, s.Handle, a.text()
				return e, nil
			}
			tool, args = want.Tool, fresh(want.Args)
			continue
		case s.Retryable:
			<-time.After(20 * time.Millisecond)
			continue
		case a.IsError && (s.Outcome == "" || s.Outcome == "denied"):
			return e, fmt.Errorf("%s %v: %s", tool, args, a.text())
		case s.Recovered && c.had(i, s.Handle): // it wants the effect again
			e.Stale++
			tool, args = want.Tool, fresh(want.Args)
			continue
		case (s.Outcome == "failed") != want.Fails:
			return e, fmt.Errorf("%s %v: %s: %s", tool, args, s.Outcome, a.text())
		default:
			e.At, e.Outcome, e.Handle, e.Recovered, e.Text, e.Server = c.now(), s.Outcome, s.Handle, s.Recovered, a.text(), c.server.Process.Pid
			return e, nil
		}
	}
	return e, errors.New("it has no result after 100 requests")
}

// thinking is how long a model takes to read an answer and to make the next call.
const thinking = 500 * time.Millisecond

// resting is how much longer than Settle a client rests.
const resting = 200 * time.Millisecond

// fresh returns the arguments of a call that must be carried out.
func fresh(args map[string]any) map[string]any {
	out := maps.Clone(args)
	out["fresh"] = true
	return out
}

// had reports whether a record is that of an earlier call, whose result the client has.
func (c *client) had(i int, handle string) bool {
	entries, _ := Transcript(c.dir)
	return slices.ContainsFunc(entries, func(e Entry) bool { return e.Call < i && e.Handle == handle })
}

// handle returns the handle of an earlier call.
func (c *client) handle(i int) (handle string) {
	entries, _ := Transcript(c.dir)
	for _, e := range entries {
		if e.Call == i {
			handle = e.Handle
		}
	}
	return handle
}

// inLedger reports whether the ledger has a line of call i, besides those of earlier
// equal calls.
func (c *client) inLedger(i int) bool {
	raw, _ := os.ReadFile(filepath.Join(c.Workspace, ledger))
	before := 0
	for _, earlier := range c.script[:i] {
		if earlier.Mark == c.script[i].Mark {
			before++
		}
	}
	return c.script[i].Mark != "" && strings.Count(string(raw), c.script[i].Mark+" ") > before
}

// again starts the server again after its end, which err found.
func (c *client) again(err error) error {
	if c.server != nil {
		_ = c.in.Close()
		_ = c.server.Wait() // its end is the reason
		c.server = nil
	}
	if c.lives++; c.lives > maxServers {
		return err
	}
	return nil
}

// tool calls a tool, and starts the server first if none runs.
func (c *client) tool(name string, args map[string]any) (a answer, err error) {
	if c.server == nil {
		if err := c.start(); err != nil {
			return a, err
		}
	}
	c.calls, c.read = c.calls+1, 0
	err = c.request("tools/call", map[string]any{"name": name, "arguments": args}, &a)
	if c.dies() {
		die()
	}
	c.longest = max(c.longest, c.read)
	return a, err
}

// dies reports whether the client is to be killed in the present answer.
func (c *client) dies() bool { return c.Cut > 0 && c.calls == c.Nth }

// cuts is the file with the numbers of bytes after which a client was killed in the
// middle of an answer.
const cuts = "cuts"

// diesInside kills the client in the middle of an answer.
func (c *client) diesInside() {
	f, err := os.OpenFile(filepath.Join(c.dir, cuts), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = fmt.Fprintln(f, c.read) // a missing line shows in the count
	}
	die()
}

// Cuts returns the numbers of bytes after which a client was killed in the middle of an
// answer.
func Cuts(dir string) ([]string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, cuts))
	return strings.Fields(string(raw)), err
}

// die kills the client.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // it does not return
	select {}
}

func (c *client) start() error {
	c.server = exec.Command(c.Server[0], c.Server[1:]...)
	c.server.Dir, c.server.Stderr = c.Workspace, os.Stderr
	c.server.SysProcAttr = &syscall.SysProcAttr{Setpgid: false}
	var err error
	if c.in, err = c.server.StdinPipe(); err != nil {
		return err
	}
	out, err := c.server.StdoutPipe()
	if err != nil {
		return err
	}
	c.out = bufio.NewReader(&cut{c, out})
	if err := c.server.Start(); err != nil {
		return err
	}
	var ignored json.RawMessage
	err = c.request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "scripted", "version": "1"}}, &ignored)
	if err != nil {
		return err
	}
	return c.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
}

// cut kills the client in the middle of an answer.
type cut struct {
	c    *client
	from io.Reader
}

// Read implements io.Reader.
func (r *cut) Read(b []byte) (int, error) {
	if r.c.dies() {
		if r.c.read >= r.c.Cut {
			r.c.diesInside()
		}
		b = b[:min(len(b), r.c.Cut-r.c.read)]
	}
	n, err := r.from.Read(b)
	r.c.read += n
	return n, err
}

func (c *client) send(message map[string]any) error {
	raw, err := json.Marshal(message)
	if err == nil {
		_, err = c.in.Write(append(raw, '\n'))
	}
	return err
}

// request sends a request and reads its answer. It ignores notifications, and answers
// requests of the server with an error.
func (c *client) request(method string, params any, result any) error {
	c.id++
	if err := c.send(map[string]any{"jsonrpc": "2.0", "id": c.id, "method": method, "params": params}); err != nil {
		return err
	}
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("the server ended: %w", err)
		}
		var m struct {
			ID     *int            `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("the server wrote %q: %w", line, err)
		}
		switch {
		case m.Method != "" && m.ID != nil:
			if err := c.send(map[string]any{"jsonrpc": "2.0", "id": *m.ID, "error": map[string]any{"code": -32601, "message": "not supported"}}); err != nil {
				return err
			}
		case m.ID == nil || *m.ID != c.id:
		case m.Error != nil:
			return &refused{string(m.Error)}
		default:
			return json.Unmarshal(m.Result, result)
		}
	}
}

// refused is an error of the protocol, which ends the script.
type refused struct{ text string }

// Error implements error.
func (r *refused) Error() string { return "the server refused the request: " + r.text }

func (c *client) close() error {
	if c.server == nil {
		return nil
	}
	err := c.in.Close()
	_ = c.server.Wait() // all results are there, so its end does not matter
	return err
}
