package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Options configure a server.
type Options struct {
	Model Model
	// Seen is called with each request, before it is answered; nil for none.
	Seen func(r *http.Request, body []byte)
}

// dialect is an API of a provider.
type dialect interface {
	decode(r *http.Request, body []byte) (asked, error)
	// answer returns the whole answer, and stream writes it as events.
	answer(a asked, reply Reply) any
	stream(e *events, a asked, reply Reply)
	// refusal returns the answer for a request that cannot be decoded.
	refusal(message string) any
}

// asked is a request.
type asked struct {
	Conversation
	// size is the number of bytes of the request.
	size   int
	stream bool
	// usage says that a stream of chat completions ends with the usage.
	usage bool
	// array says that a stream of Gemini is a JSON array.
	array bool
}

// maxBody is the greatest length of a request.
const maxBody = 64 << 20

// New returns a handler that serves the model in all dialects.
func New(o Options) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(w http.ResponseWriter, r *http.Request, body []byte)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			if o.Seen != nil {
				o.Seen(r, body)
			}
			do(w, r, body)
		})
	}
	serve := func(d dialect) func(http.ResponseWriter, *http.Request, []byte) {
		return func(w http.ResponseWriter, r *http.Request, body []byte) { o.play(d, w, r, body) }
	}
	handle("POST /v1/messages", serve(anthropic{}))
	handle("POST /v1/messages/count_tokens", func(w http.ResponseWriter, _ *http.Request, body []byte) {
		write(w, http.StatusOK, map[string]int{"input_tokens": tokens(len(body))})
	})
	handle("POST /v1/chat/completions", serve(chat{}))
	handle("POST /v1/responses", serve(responses{}))
	handle("GET /v1/models", func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		write(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]string{"id": "script", "object": "model", "owned_by": "script"}}})
	})
	handle("GET /v1/models/{id...}", func(w http.ResponseWriter, r *http.Request, _ []byte) {
		id := r.PathValue("id")
		write(w, http.StatusOK, map[string]any{"id": id, "object": "model", "owned_by": "script", "type": "model", "display_name": id})
	})
	handle("POST /api/chat", serve(ollama{}))
	handle("GET /api/tags", func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		write(w, http.StatusOK, object{"models": []object{{"name": "script", "model": "script"}}})
	})
	handle("POST /api/show", func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		write(w, http.StatusOK, object{"capabilities": []string{"completion", "tools"}, "details": object{"family": "script"}, "model_info": object{}})
	})
	handle("POST /v1beta/models/{call}", func(w http.ResponseWriter, r *http.Request, body []byte) {
		switch _, method, _ := strings.Cut(r.PathValue("call"), ":"); method {
		case "countTokens":
			write(w, http.StatusOK, map[string]int{"totalTokens": tokens(len(body))})
		case "generateContent", "streamGenerateContent":
			o.play(gemini{}, w, r, body)
		default:
			unknown(w, r, body)
		}
	})
	handle("/", unknown)
	return mux
}

func unknown(w http.ResponseWriter, r *http.Request, _ []byte) {
	write(w, http.StatusNotFound, object{"type": "error", "error": object{"type": "not_found_error", "message": "there is no " + r.Method + " " + r.URL.Path}})
}

func (o Options) play(d dialect, w http.ResponseWriter, r *http.Request, body []byte) {
	a, err := d.decode(r, body)
	if err != nil {
		write(w, http.StatusBadRequest, d.refusal(err.Error()))
		return
	}
	a.size = len(body)
	reply := o.Model(a.Conversation)
	if reply.Refused != "" {
		write(w, http.StatusBadRequest, d.refusal(reply.Refused))
		return
	}
	for i := range reply.Calls {
		if reply.Calls[i].ID == "" {
			reply.Calls[i].ID = name("call_")
		}
	}
	if !a.stream {
		write(w, http.StatusOK, d.answer(a, reply))
		return
	}
	kind := "text/event-stream"
	if _, lines := d.(ollama); lines {
		kind = "application/x-ndjson"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	d.stream(&events{w, r.Context(), reply.Pause}, a, reply)
}

// write writes an answer. The client may be gone.
func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// events writes server-sent events. It ignores errors: a client that is gone asks
// again.
type events struct {
	w     http.ResponseWriter
	ctx   context.Context
	pause time.Duration
}

// send sends an event with a name; empty for none.
func (e *events) send(event string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err) // the types of this package can be encoded
	}
	if event != "" {
		_, _ = fmt.Fprintf(e.w, "event: %s\n", event)
	}
	e.raw(string(raw))
}

// raw sends data as it is.
func (e *events) raw(data string) {
	_, _ = fmt.Fprintf(e.w, "data: %s\n\n", data)
	e.flush()
}

// line sends data as a line.
func (e *events) line(data any) {
	_ = json.NewEncoder(e.w).Encode(data)
	e.flush()
}

// flush sends the event, and pauses after it.
func (e *events) flush() {
	if f, ok := e.w.(http.Flusher); ok {
		f.Flush()
	}
	if e.pause <= 0 {
		return
	}
	t := time.NewTimer(e.pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.ctx.Done():
	}
}

// name returns a new id.
func name(prefix string) string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // it never fails
	return prefix + hex.EncodeToString(b[:])
}

// pieces cuts a text for a stream.
func pieces(s string) []string {
	if len(s) < 2 {
		return []string{s}
	}
	half := len(s) / 2
	for half < len(s) && s[half]&0xc0 == 0x80 { // inside a character
		half++
	}
	return []string{s[:half], s[half:]}
}

// object is a JSON object of an answer.
type object = map[string]any

// arguments checks that a client or a provider sent an object.
func arguments(raw []byte) (json.RawMessage, error) {
	if len(raw) == 0 {
		return json.RawMessage("{}"), nil
	}
	var o map[string]json.RawMessage
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("arguments of a call: %w", err)
	}
	return raw, nil
}

// content is a text, or a list of parts with texts.
type content []part

// part is one part of a content. Parts without a text, such as images, are kept out.
type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*c = content{{Type: "text", Text: text}}
		return nil
	}
	var parts []part
	if err := json.Unmarshal(raw, &parts); err != nil {
		return errors.New("a content is neither a text nor a list of parts")
	}
	*c = parts
	return nil
}

// String joins the texts.
func (c content) String() string {
	var out []string
	for _, p := range c {
		if p.Text != "" {
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, "\n")
}
