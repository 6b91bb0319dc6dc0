package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/provider/wire"
	"github.com/acode-dev/acode/session"
)

// now is the time of the models of the suite.
func now() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) }

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func read(t *testing.T, r io.Reader) []byte {
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("read: %v", err)
	}
	return raw
}

func parse(t *testing.T, raw string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatalf("not JSON: %v: %s", err, raw)
	}
	return v
}

// failsWith reports whether err has a code and a part of a message.
func failsWith(err error, code session.Code, part string, retryable bool) bool {
	var e *session.Error
	return errors.As(err, &e) && e.Code == code && strings.Contains(err.Error(), part) && e.Retryable == retryable && !strings.Contains(err.Error(), Key)
}

// hello is a request with one message.
func hello() session.ModelRequest {
	return session.ModelRequest{System: "You work.", Messages: []session.Message{{Role: session.RoleUser, Text: "Hello"}}}
}

// transfer sends each reply in pieces. The bytes arrive unchanged, each before the next
// one is sent.
func (p Provider) transfer(t *testing.T) {
	for _, sample := range p.Samples {
		arrived := make(chan string)
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for piece := range strings.SplitAfterSeq(sample.Stream, "\n") {
				if piece == "" {
					continue
				}
				_, _ = io.WriteString(w, piece)
				w.(http.Flusher).Flush()
				for got := ""; got != piece; {
					select {
					case more := <-arrived:
						got += more
						if !strings.HasPrefix(piece, got) {
							t.Errorf("%s: got %q, want %q", sample.Name, got, piece)
							return
						}
					case <-r.Context().Done():
						return
					}
				}
			}
		})
		if err := p.model(t, s.URL).Ask(t.Context(), hello(), pieces(arrived)); err != nil {
			t.Errorf("%s: %v", sample.Name, err)
		}
	}
}

// pieces is a writer to a channel.
type pieces chan<- string

func (c pieces) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

// brokenTransfer breaks the connection at places of the first reply. The part that
// arrived is kept.
func (p Provider) brokenTransfer(t *testing.T) {
	stream := p.Samples[0].Stream
	for n := 0; n < len(stream); n += 1 + len(stream)/20 {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(stream)))
			_, _ = io.WriteString(w, stream[:n])
			panic(http.ErrAbortHandler)
		})
		got, err := ask(t, p.model(t, s.URL), hello())
		if !failsWith(err, session.ErrModel, "broke", true) || !strings.HasPrefix(stream[:n], got) {
			t.Errorf("broken after %d bytes: got %q, %v", n, got, err)
		}
	}
	// an error of the writer is passed on
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, stream) })
	full := &session.Error{Code: session.ErrDiskFull}
	if err := p.model(t, s.URL).Ask(t.Context(), hello(), failing{full}); !errors.Is(err, session.ErrDiskFull) {
		t.Errorf("a full disk: got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// refusals answers with each status. No error shows the key, and none is too long.
func (p Provider) refusals(t *testing.T) {
	type row struct {
		status    int
		body      string
		code      session.Code
		part      string
		retryable bool
	}
	rows := map[string]row{
		"key":         {401, `{"error":{"message":"Incorrect API key provided: ` + Key + `"}}`, session.ErrConfig, "refuses the key in THE_KEY", false},
		"rights":      {403, `{"error":{"message":"no rights for ` + Key + `"}}`, session.ErrConfig, "no rights for", false},
		"no_page":     {404, `{"detail":"Not Found"}`, session.ErrConfig, "Not Found", false},
		"too_long":    {400, `{"error":{"message":"too many tokens","code":"context_length_exceeded"}}`, session.ErrLimit, "too many tokens", false},
		"too_large":   {413, `too large`, session.ErrLimit, "too large", false},
		"bad_request": {400, `{"error":{"message":"bad \u001b[31m role","type":"invalid_request_error"}}`, session.ErrModel, "bad [31m role", false},
		"quota":       {429, `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`, session.ErrModel, "quota", false},
		"long":        {500, strings.Repeat("a", 1<<20), session.ErrModel, "aaa…", true},
		"empty":       {502, "", session.ErrModel, "status 502", true},
	}
	for _, status := range []int{408, 409, 429, 500, 503, 529} {
		rows[fmt.Sprint(status)] = row{status, `{"error":{"message":"come again with ` + Key + `"}}`, session.ErrModel, "come again", true}
	}
	for name, tt := range rows {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			got, err := ask(t, p.model(t, s.URL), hello())
			if got != "" || !failsWith(err, tt.code, tt.part, tt.retryable) || len(err.Error()) > 1000 {
				t.Errorf("got %q, %v, want %s with %q, retryable %t", got, err, tt.code, tt.part, tt.retryable)
			}
		})
	}
	s := serve(t, p.NoModel)
	if _, err := ask(t, p.model(t, s.URL), hello()); !failsWith(err, session.ErrEnvironment, "there is no model model-1", false) {
		t.Errorf("no such model: got %v", err)
	}
}

// waits sends each form in which servers ask to wait. Any answer may tell when an
// allowance is full again, so that counts only if it says that too much was asked.
func (p Provider) waits(t *testing.T) {
	for name, tt := range map[string]struct {
		headers map[string]string
		want    time.Duration
	}{
		"none":         {nil, 0},
		"503":          {map[string]string{"Retry-After": "7"}, 7 * time.Second},
		"503_reset":    {map[string]string{"x-ratelimit-reset-requests": "7m12s", "x-ratelimit-remaining-requests": "0"}, 0},
		"seconds":      {map[string]string{"Retry-After": "7"}, 7 * time.Second},
		"fraction":     {map[string]string{"Retry-After": "0.5"}, 500 * time.Millisecond},
		"milliseconds": {map[string]string{"retry-after-ms": "1250", "Retry-After": "9"}, 1250 * time.Millisecond},
		"date":         {map[string]string{"Retry-After": "Wed, 02 Jan 2030 03:05:05 GMT", "Date": ""}, time.Minute},
		"other_clock":  {map[string]string{"Retry-After": "Wed, 02 Jan 2030 03:05:05 GMT", "Date": "Wed, 02 Jan 2030 03:05:00 GMT"}, 5 * time.Second},
		"past":         {map[string]string{"Retry-After": "Wed, 02 Jan 2030 03:04:00 GMT", "Date": ""}, 0},
		"nonsense":     {map[string]string{"Retry-After": "soon"}, 0},
		"negative":     {map[string]string{"Retry-After": "-5"}, 0},
		"huge":         {map[string]string{"Retry-After": "1e300"}, 365 * 24 * time.Hour},
		"used_up": {map[string]string{"x-ratelimit-reset-requests": "12ms", "x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-tokens": "6m0s",
			"x-ratelimit-remaining-tokens": "0"}, 6 * time.Minute},
		"some_left": {map[string]string{"x-ratelimit-reset-requests": "24h", "x-ratelimit-remaining-requests": "900", "x-ratelimit-reset-tokens": "2s",
			"x-ratelimit-remaining-tokens": "5"}, 2 * time.Second},
		"rfc3339":    {map[string]string{"anthropic-ratelimit-tokens-reset": "2030-01-02T03:04:35Z", "anthropic-ratelimit-tokens-remaining": "0", "Date": ""}, 30 * time.Second},
		"epoch":      {map[string]string{"X-RateLimit-Reset": fmt.Sprint(now().Unix() + 40), "Date": ""}, 40 * time.Second},
		"epoch_ms":   {map[string]string{"X-RateLimit-Reset": fmt.Sprint(now().UnixMilli() + 1500), "Date": ""}, 1500 * time.Millisecond},
		"ietf":       {map[string]string{"RateLimit-Reset": "11"}, 11 * time.Second},
		"both_forms": {map[string]string{"Retry-After": "3", "x-ratelimit-reset-tokens": "1h"}, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range tt.headers {
					if w.Header()[k] = nil; v != "" {
						w.Header().Set(k, v)
					}
				}
				if strings.HasPrefix(name, "503") {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				w.WriteHeader(http.StatusTooManyRequests)
			})
			_, err := ask(t, p.model(t, s.URL), hello())
			var e *session.Error
			if !errors.As(err, &e) || !e.Retryable || e.Wait != tt.want {
				t.Errorf("got %#v, want a wait of %s", err, tt.want)
			}
		})
	}
}

// deadline asks servers that never end an answer: one says nothing, one sends bytes
// slowly. The end of the caller's context counts first.
func (p Provider) deadline(t *testing.T) {
	quick := func(o *wire.Options) { o.Timeout = 200 * time.Millisecond }
	hangs := serve(t, func(_ http.ResponseWriter, r *http.Request) { hang(r) })
	if _, err := ask(t, p.model(t, hangs.URL, quick), hello()); !failsWith(err, session.ErrModel, "its time of 200ms was over", true) {
		t.Errorf("a server that hangs: got %v", err)
	}
	trickles := serve(t, func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, ":\n")
			w.(http.Flusher).Flush()
			<-tick.C
		}
	})
	got, err := ask(t, p.model(t, trickles.URL, quick), hello())
	if !failsWith(err, session.ErrModel, "its time of 200ms was over while its reply arrived", true) || got == "" {
		t.Errorf("a server that trickles: got %q, %v", got, err)
	}
	gone := errors.New("a person stopped it")
	ctx, stop := context.WithCancelCause(t.Context())
	asked := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		stop(gone)
		hang(r)
	})
	if err := p.model(t, asked.URL).Ask(ctx, hello(), io.Discard); !errors.Is(err, gone) {
		t.Errorf("the caller stops: got %v", err)
	}
}

// hang waits until the client is gone. It reads the request first, because a server
// notices only then.
func hang(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func (p Provider) tooLong(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		block := []byte(strings.Repeat(":\n", 1<<19))
		for range 70 {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	if err := p.model(t, s.URL).Ask(t.Context(), hello(), io.Discard); !failsWith(err, session.ErrModel, "longer than 64 MiB", false) {
		t.Errorf("got %v", err)
	}
	headers := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) })
	if err := p.model(t, headers.URL).Ask(t.Context(), hello(), io.Discard); !failsWith(err, session.ErrModel, "broke", true) {
		t.Errorf("large headers: got %v", err)
	}
}

// redirect leads to another server, which must get nothing.
func (p Provider) redirect(t *testing.T) {
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the other server got %s", r.URL) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/x", status) })
		m := p.model(t, s.URL)
		for what, err := range map[string]error{"Ask": m.Ask(t.Context(), hello(), io.Discard), "Check": m.Check(t.Context())} {
			if !failsWith(err, session.ErrConfig, "acode does not follow", false) || !strings.Contains(err.Error(), other.URL) {
				t.Errorf("%s, status %d: got %v", what, status, err)
			}
		}
	}
}

// plaintext leads to another machine without TLS.
func (p Provider) plaintext(t *testing.T) {
	for _, url := range []string{"http://192.0.2.1:9", "http://[2001:db8::1]:9"} {
		m := p.model(t, url)
		for what, err := range map[string]error{"Ask": m.Ask(t.Context(), hello(), io.Discard), "Check": m.Check(t.Context())} {
			if !failsWith(err, session.ErrConfig, "which is not this machine", false) {
				t.Errorf("%s at %s: got %v", what, url, err)
			}
		}
	}
	for _, url := range []string{"ftp://127.0.0.1", "127.0.0.1:80", "https://me:hunter22@models.example", ""} {
		if _, err := p.New(wire.Options{Name: "m", BaseURL: url}); !failsWith(err, session.ErrConfig, "is not an https address", false) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("base URL %q: got %v", url, err)
		}
	}
}

// proxy checks that only the configured proxy is used, and that it does not get the key.
func (p Provider) proxy(t *testing.T) {
	var seen []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.Host+fmt.Sprint(r.Header))
		w.WriteHeader(http.StatusForbidden)
	})
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy"} {
		t.Setenv(name, s.URL)
	}
	if err := p.model(t, "https://models.invalid").Ask(t.Context(), hello(), io.Discard); !failsWith(err, session.ErrModel, "broke", true) || len(seen) > 0 {
		t.Errorf("a proxy of the environment: got %v, and the proxy saw %q", err, seen)
	}
	m := p.model(t, "https://models.invalid", func(o *wire.Options) { o.Proxy = s.URL })
	if err := m.Ask(t.Context(), hello(), io.Discard); !failsWith(err, session.ErrModel, "broke", true) || len(seen) != 1 || !strings.HasPrefix(seen[0], "CONNECT models.invalid:443") || strings.Contains(seen[0], Key) {
		t.Errorf("a configured proxy: got %v, and the proxy saw %q", err, seen)
	}
	for _, url := range []string{"http://127.0.0.1:1", "https://127.0.0.1:1", "https://localhost/v1", "https://[::1]", "http://models.invalid"} {
		if _, err := p.New(wire.Options{Name: "m", BaseURL: url, Proxy: s.URL}); !failsWith(err, session.ErrConfig, "its proxy", false) {
			t.Errorf("a proxy for %s: got %v", url, err)
		}
	}
}

// key checks that a key arrives, and that a model without one sends none. A key that is
// not set or has an end of line is refused before anything is sent.
func (p Provider) key(t *testing.T) {
	var sent string
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { sent = r.URL.String() + fmt.Sprint(r.Header) })
	for _, try := range []func(engine.Model) error{
		func(m engine.Model) error { return m.Ask(t.Context(), hello(), io.Discard) },
		func(m engine.Model) error { return m.Check(t.Context()) },
	} {
		sent = ""
		if err := try(p.model(t, s.URL)); err != nil || strings.Count(sent, Key) != 1 {
			t.Errorf("with a key: got %v, the server saw %s", err, sent)
		}
		if err := try(p.model(t, s.URL, func(o *wire.Options) { o.Key, o.KeyName = "", "" })); err != nil || strings.Contains(sent, "Authorization") || strings.Contains(sent, "X-Api-Key") {
			t.Errorf("without a key: got %v, the server saw %s", err, sent)
		}
		sent = ""
		if err := try(p.model(t, s.URL, func(o *wire.Options) { o.Key = "" })); !failsWith(err, session.ErrConfig, "THE_KEY, which has its key, is not set", false) || sent != "" {
			t.Errorf("a key that is not set: got %v, the server saw %s", err, sent)
		}
	}
	if _, err := p.New(wire.Options{Name: "m", BaseURL: s.URL, KeyName: "THE_KEY", Key: Key + "\nX: y"}); !failsWith(err, session.ErrConfig, "THE_KEY has characters", false) {
		t.Errorf("a key with an end of line: got %v", err)
	}
	a, b := p.model(t, s.URL).Setup(), p.model(t, s.URL, func(o *wire.Options) { o.Key, o.Timeout = "other", time.Hour }).Setup()
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("Setup has the key (-want +got):\n%s", diff)
	}
	for what, change := range map[string]func(*wire.Options){
		"model": func(o *wire.Options) { o.Model = "x" }, "base URL": func(o *wire.Options) { o.BaseURL += "/x" }, "context": func(o *wire.Options) { o.ContextTokens++ },
	} {
		if p.model(t, s.URL, change).Setup() == a {
			t.Errorf("Setup does not have the %s", what)
		}
	}
}

// check asks whether the model is there.
func (p Provider) check(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"there": {p.There, nil}, "path": {func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.URL.Path+" not found", http.StatusNotFound)
		}, nil}, "no_model": {p.NoModel, session.ErrEnvironment}, "no_page": {status(404), nil},
		"key": {status(401), session.ErrConfig}, "away": {status(503), session.ErrModel}, "busy": {status(429), session.ErrModel},
	} {
		s := serve(t, tt.answer)
		if err := p.model(t, s.URL).Check(t.Context()); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	gone := serve(t, nil)
	gone.Close()
	if err := p.model(t, gone.URL).Check(t.Context()); !failsWith(err, session.ErrModel, "connection refused", true) {
		t.Errorf("no server: got %v", err)
	}
}
