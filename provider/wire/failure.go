package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/acode-dev/acode/session"
)

// Failure is an error in the words of a provider.
type Failure struct {
	// Code and Type name its kind; either may be empty.
	Code, Type string
	Message    string
}

// maxMessage limits how much of a provider's message acode shows.
const maxMessage = 500

// ReadFailure reads the body of an error. Servers write {"error": {...}},
// {"error": "text"}, {"message": "text"}, {"detail": "text"} or plain text.
func ReadFailure(body []byte) (f Failure) {
	var all struct {
		Error, Message, Detail, Code, Type any
	}
	if json.Unmarshal(body, &all) != nil {
		return Failure{Message: shown(string(body))}
	}
	f = Failure{Code: text(all.Code), Type: text(all.Type), Message: cmp.Or(text(all.Message), text(all.Detail), text(all.Error))}
	if inner, ok := all.Error.(map[string]any); ok {
		f = Failure{Code: text(inner["code"]), Type: text(inner["type"]), Message: cmp.Or(text(inner["message"]), text(inner["detail"]))}
	}
	f.Message = shown(cmp.Or(f.Message, f.Code, f.Type, string(body)))
	return f
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return fmt.Sprint(v)
	}
	return ""
}

// shown makes a message of another side fit for a line.
func shown(s string) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))), " ")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}

// says reports whether the failure has one of the words.
func (f Failure) says(words ...string) bool {
	all := strings.ToLower(f.Code + " " + f.Type + " " + f.Message)
	for _, w := range words {
		if strings.Contains(all, w) {
			return true
		}
	}
	return false
}

// NoModel reports whether the provider says that it does not have the model. A missing
// page is not such an answer, even if its path names the model.
func (f Failure) NoModel() bool {
	f.Message = regexp.MustCompile(`/\S*`).ReplaceAllString(f.Message, "")
	return f.says("model_not_found") || f.says("model") && f.says("not found", "does not exist", "not_found_error")
}

// TooLong reports whether the provider says that the conversation is too long.
func (f Failure) TooLong() bool {
	return f.says("context_length_exceeded", "exceed_context_size", "maximum context length", "context window", "prompt is too long", "request_too_large", "exceeds the available context size", "exceeds the context length", "exceed context limit")
}

// Passing reports whether the same request may succeed later.
func (f Failure) Passing() bool {
	return f.says("overloaded", "rate_limit", "server_error", "api_error", "timeout", "unavailable") && !f.says("insufficient_quota")
}

// Unknown returns the error of a part of a reply that cannot be joined. It names the part
// (H3).
func Unknown(provider, part string) error {
	return &session.Error{Code: session.ErrModel, Message: "acode cannot join a part of the reply of the provider " + provider + ": " + shown(part) + "; the reply is kept",
		Next: session.Words("ask another model, or use a version of acode that knows this part")}
}

// Unread returns the error of a reply that cannot be read. It returns nil for no error,
// and leaves one with a code as it is.
func Unread(provider string, err error) error {
	if err == nil || session.CodeOf(err) != session.ErrInternal {
		return err
	}
	return &session.Error{Code: session.ErrModel, Message: "the reply of the provider " + provider + " cannot be read", Cause: err}
}

// InReply returns the error of a reply that says itself that it failed.
func InReply(provider string, f Failure) error {
	e := &session.Error{Code: session.ErrModel, Message: "the provider " + provider + " ended the reply with an error: " + f.Message, Retryable: f.Passing()}
	if f.TooLong() {
		e.Code = session.ErrLimit
	}
	return e
}

// errNoPage says that the server does not know the path of a request.
var errNoPage = errors.New("the server has no such path")

// Checked returns the result of a Check whose request ended with err. A server that
// cannot be asked for a model counts as one that has it.
func Checked(err error) error {
	if errors.Is(err, errNoPage) {
		return nil
	}
	return err
}

// refused returns the error of an answer with another status than 200.
func (c *Client) refused(answer *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxErrorBytes)) // a part of it is better than nothing
	f := ReadFailure([]byte(c.mask.String(string(body))))
	said := fmt.Sprintf("%s answers with status %d: %s", c.base.Host, answer.StatusCode, f.Message)
	status := answer.StatusCode
	switch {
	case status >= 300 && status < 400:
		return c.config(fmt.Sprintf("%s sends it on to %s, and acode does not follow", c.base.Host, target(answer)), "set base_url to the address that you trust")
	case status == http.StatusUnauthorized:
		return c.config(c.base.Host+" refuses "+c.keyed(), "set api_key_env to the name of the variable that has a valid key, then resume")
	case status == http.StatusForbidden:
		return c.config(said, "look at the key and at the rights of its account, then resume")
	case status == http.StatusNotFound && f.NoModel():
		return &session.Error{Code: session.ErrEnvironment, Message: fmt.Sprintf("there is no model %s: %s", c.Model, said), Next: session.Then("correct it in your configuration, or choose another model", session.MoveChooseModel, "")}
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		e := c.config(said, "look at base_url: it may need /v1 at its end")
		e.Cause = errNoPage
		return e
	case f.TooLong() || status == http.StatusRequestEntityTooLarge:
		return &session.Error{Code: session.ErrLimit, Message: "the conversation is too long for the model " + c.Name + ": " + said, Next: session.Words("choose a model with a larger context")}
	}
	retryable := status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests && !f.says("insufficient_quota") || status >= 500
	e := c.fails(said, retryable, nil)
	if retryable {
		e.Wait = wait(answer, c.Now())
	}
	return e
}

// keyed names the key for people.
func (c *Client) keyed() string {
	if c.KeyName == "" {
		return "a request without a key"
	}
	return "the key in " + c.KeyName
}

// target names the host that a redirect leads to.
func target(answer *http.Response) string {
	if to, err := url.Parse(answer.Header.Get("Location")); err == nil && to.Host != "" {
		return shown(to.Scheme + "://" + to.Host)
	}
	return "another path"
}
