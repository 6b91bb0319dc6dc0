package wire

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// Limits of answers.
const (
	// DefaultTimeout limits a request whose model has no timeout.
	DefaultTimeout = 10 * time.Minute

	maxReplyBytes  = 64 << 20
	maxErrorBytes  = 64 << 10
	maxHeaderBytes = 64 << 10
)

// Options describe a model and how it is reached.
type Options struct {
	// Name is its name in the configuration; Provider is that of its dialect.
	Name, Provider string
	// Model is the provider's name of the model.
	Model string
	// BaseURL is https, or http to this machine.
	BaseURL string
	// KeyName is the name of the variable that has the key, and Key its value. A model
	// without a key has neither.
	KeyName, Key string
	// Proxy is the URL of a proxy; empty for none.
	Proxy string
	// ContextTokens and MaxOutputTokens are limits of the model; 0 means that they are
	// unknown.
	ContextTokens, MaxOutputTokens int
	// Timeout limits each request; 0 means DefaultTimeout.
	Timeout time.Duration
	// Now returns the time, for answers that name one.
	Now func() time.Time
}

// Client reaches a model. It is safe for concurrent use.
type Client struct {
	Options
	base  *url.URL
	setup session.ModelSetup
	http  *http.Client
	mask  *redact.Redactor
}

// New returns a client. It returns ErrConfig for options that it cannot use.
func New(o Options) (*Client, error) {
	c := &Client{Options: o, mask: redact.New([]string{o.Key})}
	base, err := url.Parse(o.BaseURL)
	if err != nil || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, c.config("its base_url is not an https address", "correct base_url in your configuration")
	}
	if !regexp.MustCompile(`^[!-~]*$`).MatchString(o.Key) {
		return nil, c.config("the key in "+o.KeyName+" has characters that no key has", "set "+o.KeyName+" to the key alone, without spaces and line ends")
	}
	c.base, c.setup = base, o.setup()
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	transport := &http.Transport{
		DialContext: c.dialer().DialContext, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxResponseHeaderBytes: maxHeaderBytes, TLSHandshakeTimeout: 30 * time.Second, IdleConnTimeout: 90 * time.Second,
	}
	if o.Proxy != "" {
		proxy, err := url.Parse(o.Proxy)
		if err != nil || proxy.Host == "" || base.Scheme == "http" || c.Leaves() == "" {
			return nil, c.config("its proxy is not an address, or base_url is http or on this machine", "correct proxy in your configuration")
		}
		transport.Proxy = http.ProxyURL(proxy)
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// dialer connects to any address for https, and only to this machine for http (H2).
func (c *Client) dialer() *net.Dialer {
	d := &net.Dialer{Timeout: 30 * time.Second}
	if c.base.Scheme == "http" {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			host, _, err := net.SplitHostPort(address)
			if err == nil && !net.ParseIP(host).IsLoopback() {
				err = c.config("its base_url is http and leads to "+host+", which is not this machine; nothing was sent", "use https")
			}
			return err
		}
	}
	return d
}

// Setup describes the model without its key.
func (c *Client) Setup() session.ModelSetup { return c.setup }

func (o Options) setup() session.ModelSetup {
	raw, err := json.Marshal([]string{o.Model, o.BaseURL, strconv.Itoa(o.ContextTokens), strconv.Itoa(o.MaxOutputTokens)})
	if err != nil {
		panic("wire: texts must encode: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return session.ModelSetup{Name: o.Name, Provider: o.Provider, Digest: hex.EncodeToString(sum[:])}
}

// Host returns the host of the model.
func (c *Client) Host() string { return c.base.Host }

// Leaves returns the host of the model; empty if that is this machine.
func (c *Client) Leaves() string {
	name := c.base.Hostname()
	if name == "localhost" || net.ParseIP(name).IsLoopback() {
		return ""
	}
	return c.base.Host
}

// Bearer returns a header with the key as a bearer token.
func (c *Client) Bearer() http.Header {
	h := http.Header{}
	if c.Key != "" {
		h.Set("Authorization", "Bearer "+c.Key)
	}
	return h
}

// Body returns a request with these messages, whose bytes stay as they are. request is a
// struct.
func Body(request any, messages []json.RawMessage) []byte {
	raw, err := json.Marshal(request)
	if err != nil {
		panic("wire: a request must encode: " + err.Error())
	}
	o, err := ReadObject(raw)
	if err != nil {
		panic("wire: a request must be an object: " + err.Error())
	}
	o.Set("messages", List(messages))
	return o.Bytes()
}

// Post sends body to a path below the base URL and writes the bytes of the answer to into
// as they arrive. An error has the code ErrModel, ErrConfig, ErrEnvironment or ErrLimit
// unless into failed. Post returns the cause of ctx if that ends first.
func (c *Client) Post(ctx context.Context, path string, header http.Header, body []byte, into io.Writer) error {
	return c.send(ctx, http.MethodPost, path, header, body, into)
}

// Get asks for a path below the base URL and returns the answer. Its errors are those of
// Post.
func (c *Client) Get(ctx context.Context, path string, header http.Header) ([]byte, error) {
	var out bytes.Buffer
	err := c.send(ctx, http.MethodGet, path, header, nil, &out)
	return out.Bytes(), err
}

// errLate is the cause of a context that ends at the deadline of a request.
var errLate = errors.New("deadline of the request")

func (c *Client) send(ctx context.Context, method, path string, header http.Header, body []byte, into io.Writer) error {
	if c.KeyName != "" && c.Key == "" {
		return c.config("the variable "+c.KeyName+", which has its key, is not set", "set it, then resume")
	}
	within, cancel := context.WithTimeoutCause(ctx, c.Timeout, errLate)
	defer cancel()
	r, err := http.NewRequestWithContext(within, method, c.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return c.fails("the request cannot be made", false, err)
	}
	r.Header.Set("User-Agent", "acode")
	r.Header.Set("Content-Type", "application/json")
	for name, values := range header {
		r.Header[name] = values
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return c.broken(ctx, within, "", err)
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	if answer.StatusCode != http.StatusOK {
		return c.refused(answer)
	}
	n, err := io.Copy(writer{into}, io.LimitReader(answer.Body, maxReplyBytes))
	var failed *writeError
	switch {
	case errors.As(err, &failed):
		return failed.err
	case err != nil:
		return c.broken(ctx, within, " while its reply arrived", err)
	case n == maxReplyBytes:
		return c.fails(fmt.Sprintf("its reply is longer than %d MiB", maxReplyBytes>>20), false, nil)
	}
	return nil
}

// broken returns the error of a request that got no answer, or only a part of one.
func (c *Client) broken(ctx, within context.Context, when string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(context.Cause(within), errLate) {
		return c.fails("its time of "+c.Timeout.String()+" was over"+when, true, nil)
	}
	var known *session.Error
	if errors.As(err, &known) {
		return known
	}
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err // without the address
	}
	return c.fails("the connection to "+c.base.Host+" broke"+when, true, errors.New(c.mask.String(err.Error())))
}

// writer marks the errors of a writer.
type writer struct{ io.Writer }

func (w writer) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		err = &writeError{err}
	}
	return n, err
}

type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }

// fails returns ErrModel.
func (c *Client) fails(why string, retryable bool, cause error) *session.Error {
	return &session.Error{Code: session.ErrModel, Message: "the model " + c.Name + " gave no answer: " + why, Retryable: retryable, Cause: cause}
}

// config returns ErrConfig.
func (c *Client) config(why, next string) *session.Error {
	return &session.Error{Code: session.ErrConfig, Message: "the model " + c.Name + " cannot be asked: " + why, Next: session.Words(strings.TrimSpace(next))}
}
