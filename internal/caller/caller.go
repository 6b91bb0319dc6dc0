// Package caller is a scripted client of the Model Context Protocol for tests. It writes
// raw lines to a server and reads its lines, so a test can send what no library would.
package caller

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Client is one connection. It is safe for concurrent use.
type Client struct {
	in  io.WriteCloser
	out io.Closer
	// Process is nil for a client of a server in this process.
	Process *os.Process

	mu      sync.Mutex
	next    int
	waiting map[string]chan Message
	// Strays are messages that answer no request, in their order.
	strays []Message
	// changed is closed and made again with each stray.
	changed chan struct{}
	gone    chan struct{}
	ended   chan error
}

// Message is a line of the server.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// Result is the answer to a call of a tool.
type Result struct {
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	IsError    bool       `json:"isError"`
	Structured Structured `json:"structuredContent"`
}

// Structured is the structured content of a Result.
type Structured struct {
	Operation string `json:"operation"`
	Handle    string `json:"handle"`
	Outcome   string `json:"outcome"`
	Recovered bool   `json:"recovered"`
	Exit      *int   `json:"exit"`
	Changed   []struct{ Path, Kind, Diff string }
	Held      []struct {
		Path, Change string
		Stays        bool
	} `json:"held"`
	Owed      []Structured `json:"owed"`
	Code      string       `json:"code"`
	Message   string       `json:"message"`
	Hint      string       `json:"hint"`
	Retryable bool         `json:"retryable"`
	Text      string       `json:"text"`

	// The fields of control tools.
	TaskID       string          `json:"task_id"`
	ShortID      string          `json:"short_id"`
	RequestID    string          `json:"request_id"`
	Cause        string          `json:"cause"`
	ChangedFiles []string        `json:"changed_files"`
	Data         json.RawMessage `json:"data"`
}

// Start starts a server. Its standard error is that of cmd.
func Start(cmd *exec.Cmd) (*Client, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not StdoutPipe: Wait would close it before its last lines are read.
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = theirs
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := Over(in, out)
	c.Process = cmd.Process
	go func() {
		err := cmd.Wait()
		_ = theirs.Close() // the end of out follows
		c.ended <- err
	}()
	return c, nil
}

// Over connects to a server that reads from in and writes to out.
func Over(in io.WriteCloser, out io.ReadCloser) *Client {
	c := &Client{in: in, out: out, waiting: map[string]chan Message{}, changed: make(chan struct{}), gone: make(chan struct{}), ended: make(chan error, 1)}
	go c.read(out)
	return c
}

func (c *Client) read(out io.Reader) {
	defer close(c.gone)
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m Message
		if err := json.Unmarshal(line, &m); err != nil {
			m = Message{Method: "not JSON: " + string(line)}
		}
		c.mu.Lock()
		to, ok := c.waiting[string(m.ID)]
		if ok && m.Method == "" {
			delete(c.waiting, string(m.ID))
			to <- m
		} else {
			c.strays = append(c.strays, m)
			close(c.changed)
			c.changed = make(chan struct{})
		}
		c.mu.Unlock()
	}
}

// Line writes a line as it is.
func (c *Client) Line(text string) error {
	_, err := io.WriteString(c.in, text+"\n")
	return err
}

// Write writes bytes without a line end.
func (c *Client) Write(b []byte) (int, error) { return c.in.Write(b) }

// Expect returns a channel that gets the answer to the request with this id.
func (c *Client) Expect(id string) <-chan Message {
	answer := make(chan Message, 1)
	c.mu.Lock()
	c.waiting[id] = answer
	c.mu.Unlock()
	return answer
}

// Begin sends a request and returns a channel that gets its answer.
func (c *Client) Begin(method string, params any) (<-chan Message, error) {
	c.mu.Lock()
	c.next++
	id := fmt.Sprint(c.next)
	c.mu.Unlock()
	answer := c.Expect(id)
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	return answer, c.Line(string(text))
}

// Patience limits the wait for an answer; a test that reaches it has failed.
const Patience = 60 * time.Second

// Await waits for an answer.
func (c *Client) Await(answer <-chan Message) (Message, error) {
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case m := <-answer:
		return m, nil
	case <-c.gone:
		select {
		case m := <-answer:
			return m, nil
		default:
			return Message{}, io.ErrUnexpectedEOF
		}
	case <-late.C:
		return Message{}, fmt.Errorf("no answer after %s", Patience)
	}
}

// Request sends a request and waits for its answer.
func (c *Client) Request(method string, params any) (Message, error) {
	answer, err := c.Begin(method, params)
	if err != nil {
		return Message{}, err
	}
	return c.Await(answer)
}

// Hello initializes the connection under a client's name. roots are the URIs of the
// client's roots; nil for a client without roots.
func (c *Client) Hello(name string, roots []string) error {
	capabilities := map[string]any{}
	if roots != nil {
		capabilities["roots"] = map[string]any{}
		list := []map[string]string{}
		for _, u := range roots {
			list = append(list, map[string]string{"uri": u})
		}
		c.Answer("roots/list", func(Message) any { return map[string]any{"roots": list} })
	}
	return c.HelloWith(name, capabilities)
}

// HelloWith initializes the connection under a client's name and with its capabilities.
func (c *Client) HelloWith(name string, capabilities map[string]any) error {
	m, err := c.Request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": map[string]any{"name": name, "version": "1"}})
	if err != nil {
		return err
	}
	if m.Error != nil {
		return fmt.Errorf("initialize: %s", m.Error.Message)
	}
	return c.Line(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// Answer answers the server's requests of a method with the results of answer, from now
// on.
func (c *Client) Answer(method string, answer func(Message) any) {
	go func() {
		for n := 0; ; n++ {
			m, ok := c.stray(n)
			if !ok {
				return
			}
			if m.Method != method || m.ID == nil {
				continue
			}
			text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": answer(m)})
			if err != nil || c.Line(string(text)) != nil {
				return
			}
		}
	}()
}

// stray returns the message number n that answers no request. It returns false at the end
// of the connection.
func (c *Client) stray(n int) (Message, bool) {
	for {
		c.mu.Lock()
		changed := c.changed
		if n < len(c.strays) {
			m := c.strays[n]
			c.mu.Unlock()
			return m, true
		}
		c.mu.Unlock()
		select {
		case <-changed:
		case <-c.gone:
			return Message{}, false
		}
	}
}

// Stray waits for the message number n, from 0, that answers no request.
func (c *Client) Stray(n int) (Message, error) {
	m, ok := c.stray(n)
	if !ok {
		return m, io.ErrUnexpectedEOF
	}
	return m, nil
}

// BeginCall sends a call of a tool.
func (c *Client) BeginCall(tool string, arguments any) (<-chan Message, error) {
	return c.Begin("tools/call", map[string]any{"name": tool, "arguments": arguments})
}

// Call calls a tool.
func (c *Client) Call(tool string, arguments any) (Result, error) {
	m, err := c.Request("tools/call", map[string]any{"name": tool, "arguments": arguments})
	if err != nil {
		return Result{}, err
	}
	return m.Tool()
}

// Tool decodes the answer to a call.
func (m Message) Tool() (r Result, err error) {
	if m.Error != nil {
		return r, fmt.Errorf("error %d: %s", m.Error.Code, m.Error.Message)
	}
	return r, json.Unmarshal(m.Result, &r)
}

// End ends the connection in order and waits for the end of the server.
func (c *Client) End() error {
	err := c.in.Close()
	if c.Process == nil {
		return err
	}
	return c.Wait()
}

// Drop closes both ends, as the kernel does for a client that was killed.
func (c *Client) Drop() {
	// Either may be closed already.
	_ = c.out.Close()
	_ = c.in.Close()
}

// Wait waits for the end of the server's process, and returns how it ended.
func (c *Client) Wait() error {
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case err := <-c.ended:
		return err
	case <-late.C:
		return fmt.Errorf("the server did not end in %s", Patience)
	}
}
