package cli

import (
	"errors"
	"regexp"
	"strings"

	"github.com/acode-dev/acode/session"
)

// spelled gives text, which tells a person what to type, with the flags by which this command line
// named its configuration, and with that maybe its store, and allowed its workspace: what is copied
// from there must mean the same.
func (a *app) spelled(text string) string {
	var config, allow string
	if a.config != "" {
		config = "--config " + session.ShellQuote(a.config) + " "
	}
	for _, dir := range a.allow {
		allow += "--allow-workspace " + session.ShellQuote(dir) + " "
	}
	if config+allow == "" {
		return text
	}
	typed := regexp.MustCompile(`(^|[ :])acode (run|resume|status|session|approve|deny|verify|config|sync)\b`)
	return typed.ReplaceAllStringFunc(text, func(command string) string {
		before, verb, _ := strings.Cut(command, "acode ")
		if verb == "run" || verb == "resume" {
			return before + "acode " + config + allow + verb
		}
		return before + "acode " + config + verb
	})
}

// verdict gives the exit status of err and what to do about it; what err itself says of that is spelled out.
func (a *app) verdict(err error) (status int, hint string) {
	var e *session.Error
	if errors.As(err, &e) {
		e.Next = a.spelled(e.Next)
	}
	status, hint = exitOf(err)
	return status, a.spelled(hint)
}

// about has err, of the session short, name that session in what there is to do where only its code says that.
func about(short string, err error) error {
	var e *session.Error
	if errors.As(err, &e) && e.Next == "" {
		_, hint := exitOf(err)
		e.Next = strings.ReplaceAll(hint, " ID", " "+short)
	}
	return err
}
