package main

import (
	"encoding/json"
	"strings"
)

// result is the structured content of an answer of acode, which Claude Code and Codex
// give the model in place of the text.
type result struct {
	Outcome   string   `json:"outcome"`
	Recovered bool     `json:"recovered"`
	Handle    string   `json:"handle"`
	Label     string   `json:"label"`
	Text      string   `json:"text"`
	Retryable bool     `json:"retryable"`
	Exit      *int     `json:"exit"`
	Owed      []result `json:"owed"`
}

// parse reads the text that the model got. That is the structured content, which Codex
// puts behind the time that the call took. For an error Claude Code gives the model the
// text of the answer instead. A text that a client made up for a call without an answer
// is none.
func parse(text string) (r result, ok bool) {
	if at := strings.IndexByte(text, '{'); at >= 0 && json.NewDecoder(strings.NewReader(text[at:])).Decode(&r) == nil && r.Outcome != "" {
		return r, true
	}
	r = result{Text: text}
	if rest, found := strings.CutPrefix(text, "NOT RUN NOW."); found {
		r.Recovered = true
		_, text, _ = strings.Cut(rest, "\n\n")
	}
	for begin, outcome := range map[string]string{"OUTCOME UNKNOWN": "unknown", "Exit status ": "failed", "FAILED: ": "failed", "TIMED OUT": "failed", "Ended by ": "failed"} {
		if strings.HasPrefix(text, begin) {
			r.Outcome = outcome
		}
	}
	if strings.Contains(text, "(ACODE-") && r.Outcome == "" {
		r.Outcome, r.Retryable = "denied", strings.Contains(text, "(ACODE-RESUME-003)")
	}
	return r, r.Outcome != ""
}

// about returns the part of the text of a told answer that is about one of its calls.
func (r result) about(handle string) string {
	_, text, _ := strings.Cut(r.Text, "(handle "+handle+")")
	for _, other := range r.Owed {
		text, _, _ = strings.Cut(text, "(handle "+other.Handle+")")
	}
	return text
}
