package cli

import (
	"errors"
	"regexp"
	"strings"

	"github.com/acode-dev/acode/session"
)

// Spelled gives text, which tells a person what to type, with the flags by which this command line
// named its configuration, and with that maybe its store, and allowed its workspace: what is copied
// from there must mean the same.
func (i *Invocation) Spelled(text string) string {
	var config, allow string
	if i.config != "" {
		config = "--config " + session.ShellQuote(i.config) + " "
	}
	for _, dir := range i.allow {
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
func (i *Invocation) verdict(err error) (status int, hint string) {
	var e *session.Error
	if errors.As(err, &e) {
		e.Next = i.Spelled(e.Next)
	}
	status, hint = exitOf(err)
	return status, i.Spelled(hint)
}
