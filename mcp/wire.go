package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/tool"
)

const (
	// maxLine is the greatest length of a message.
	maxLine = 32 << 20
	// mostOpen is how many requests may be without an answer before reading waits.
	mostOpen = 2048
)

// errUnread is the end of a connection whose client does not read.
var errUnread = errors.New("the client reads no answers, so its connection was ended; no answer is lost")

// wire is the connection to the client: JSON, a message a line. Unlike the transport of
// the SDK it answers a bad line with an error and reads on, and it knows when an answer
// is written.
type wire struct {
	in     io.Reader
	out    io.Writer
	unread time.Duration
	words  words

	lines chan line
	slots chan struct{}
	// done is closed at the end of the connection; err is set before.
	done chan struct{}
	once sync.Once
	err  error

	writing sync.Mutex

	mu sync.Mutex
	// open has an element for each id of a request without an answer: the function to call
	// when that is written, or nil.
	open map[string]func()
}

// line is a line of the input, or the beginning of one that is too long.
type line struct {
	text []byte
	long bool
}

func newWire(in io.Reader, out io.Writer, unread time.Duration, w words) *wire {
	return &wire{in: in, out: out, unread: unread, words: w, lines: make(chan line), slots: make(chan struct{}, mostOpen), done: make(chan struct{}), open: map[string]func(){}}
}

// Connect implements sdk.Transport.
func (w *wire) Connect(context.Context) (sdk.Connection, error) {
	go w.scan()
	return w, nil
}

// end ends the connection for a reason; nil is the end of the input.
func (w *wire) end(err error) {
	w.once.Do(func() {
		w.err = err
		close(w.done)
	})
}

// scan reads lines until the end of the input. A last line without its end is dropped.
func (w *wire) scan() {
	in := bufio.NewReaderSize(w.in, 64<<10)
	var l line
	for {
		part, err := in.ReadSlice('\n')
		if room := maxLine - len(l.text); len(part) > room {
			part, l.long = part[:max(room, 0)], true
		}
		l.text = append(l.text, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			w.end(err)
			return
		}
		select {
		case w.lines <- l:
		case <-w.done:
			return
		}
		l = line{}
	}
}

// Read implements sdk.Connection. It answers a line that is no message with an error, and
// returns the next message.
func (w *wire) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case <-w.done:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		case l := <-w.lines:
			if len(bytes.TrimSpace(l.text)) == 0 {
				continue
			}
			msg, err := w.decode(l)
			if err != nil {
				if err := w.refuse(envelopeOf(l.text), err); err != nil {
					return nil, io.EOF
				}
				continue
			}
			if w.accept(msg) {
				return msg, nil
			}
		}
	}
}

// decode returns the message of a line.
func (w *wire) decode(l line) (jsonrpc.Message, error) {
	switch begin := bytes.TrimLeft(l.text, " \t\r"); {
	case l.long:
		return nil, tool.Usage(fmt.Sprintf("the message has more than %d bytes", maxLine), "write the content in parts, or with a command")
	case !utf8.Valid(l.text):
		return nil, tool.Usage("the message is not valid UTF-8", "encode text as UTF-8")
	// The nesting of what json accepts is limited, and so is the stack that the SDK
	// needs.
	case !json.Valid(l.text):
		return nil, tool.Usage("the message is not JSON", "send one complete JSON object a line")
	case begin[0] == '[':
		return nil, tool.Usage("a batch of messages is not supported", "send one JSON object a line")
	}
	msg, err := jsonrpc.DecodeMessage(l.text)
	if err != nil {
		return nil, tool.Usage("the message is not JSON-RPC 2.0: "+tool.Cut(err.Error(), 200), `send "jsonrpc": "2.0", an id and a method`)
	}
	return msg, nil
}

// accept notes a request, and reports whether the SDK is to handle the message. It waits
// while too many requests have no answer.
func (w *wire) accept(msg jsonrpc.Message) bool {
	r, ok := msg.(*jsonrpc.Request)
	if !ok || !r.IsCall() {
		return true
	}
	select {
	case w.slots <- struct{}{}:
	case <-w.done:
		return false
	}
	key := idKey(r.ID)
	r.Extra = &sdk.RequestExtra{Header: http.Header{idHeader: {key}}}
	w.mu.Lock()
	_, used := w.open[key]
	if !used {
		w.open[key] = nil
	}
	w.mu.Unlock()
	if used {
		<-w.slots
		// The answer has no id, because the id is that of the other request.
		_ = w.refuse(envelope{}, tool.Usage("a request with this id has no answer yet", "give each request another id"))
	}
	return !used
}

// idHeader carries the id of a request to its handler. The SDK does not.
const idHeader = "Acode-Request"

func idKey(id jsonrpc.ID) string { return fmt.Sprintf("%T %v", id.Raw(), id.Raw()) }

// watch has written called when the answer to a request is written.
func (w *wire) watch(key string, written func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.open[key]; ok {
		w.open[key] = written
	}
}

// Write implements sdk.Connection.
func (w *wire) Write(_ context.Context, msg jsonrpc.Message) error {
	r, answer := msg.(*jsonrpc.Response)
	if answer {
		w.explain(r)
	}
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	if !answer {
		return w.put(data)
	}
	key := idKey(r.ID)
	w.mu.Lock()
	written, ok := w.open[key]
	delete(w.open, key)
	w.mu.Unlock()
	if ok {
		<-w.slots
	}
	if err := w.put(data); err != nil {
		return err
	}
	if written != nil {
		written()
	}
	return nil
}

// explain adds code and hint to an error of the SDK.
func (w *wire) explain(r *jsonrpc.Response) {
	if r.Error == nil {
		return
	}
	e := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest}
	var known *jsonrpc.Error
	if errors.As(r.Error, &known) {
		e.Code, e.Data = known.Code, known.Data
	}
	if e.Message = r.Error.Error(); len(e.Data) == 0 {
		e.Data = mustJSON(problem{Code: session.ErrUsage, Hint: "send what the protocol asks for here; tools/list has the tools"})
	}
	r.Error = e
}

// put writes a line. It ends the connection if the client takes nothing for a minute.
func (w *wire) put(data []byte) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	for data = append(data, '\n'); len(data) > 0; {
		select {
		case <-w.done:
			return io.ErrClosedPipe
		default:
		}
		part := data[:min(len(data), 32<<10)]
		late := time.AfterFunc(w.unread, func() { w.end(errUnread) })
		n, err := w.out.Write(part)
		late.Stop()
		if err != nil {
			w.end(err)
			return err
		}
		data = data[n:]
	}
	return nil
}

// refuse answers a line that is no message.
func (w *wire) refuse(e envelope, err error) error {
	id := e.id
	if id == nil {
		id = json.RawMessage("null")
	}
	if e.method == "tools/call" && e.id != nil {
		return w.put(mustJSON(map[string]any{"jsonrpc": "2.0", "id": id, "result": refused(err, w.words)}))
	}
	p := w.words.problem(err)
	return w.put(mustJSON(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": jsonrpc.CodeParseError, "message": p.Message, "data": p}}))
}

// Close implements sdk.Connection.
func (w *wire) Close() error {
	w.end(nil)
	return nil
}

// SessionID implements sdk.Connection.
func (*wire) SessionID() string { return "" }

// envelope has the fields that identify a message.
type envelope struct {
	// id is nil if it could not be read.
	id     json.RawMessage
	method string
}

// envelopeOf reads as much of a damaged message as possible.
func envelopeOf(text []byte) (e envelope) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return e
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return e
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return e
		}
		switch {
		case name == "id" && value[0] != '{' && value[0] != '[' && string(value) != "null" && utf8.Valid(value):
			// A number at the end of the text may be cut.
			if d.InputOffset() < int64(len(bytes.TrimRight(text, " \t\r\n"))) {
				e.id = value
			}
		case name == "method":
			_ = json.Unmarshal(value, &e.method) // a method of another type is none
		}
	}
	return e
}

func mustJSON(v any) json.RawMessage {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err) // only values of this package, which can be encoded
	}
	return out
}
