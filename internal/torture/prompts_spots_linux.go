package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/acode-dev/acode/internal/crash"
)

// requestSpots are before and after each request.
func requestSpots() (all []spot) {
	eachReply(func(r wantedReply, turn int) {
		for _, when := range []crash.When{crash.Before, crash.After} {
			all = append(all, spot{name: fmt.Sprintf("request %d of %s", turn, r.talk), role: crash.RoleAcode, when: when, talk: r.talk, surely: true, match: func() func(crash.Call) bool {
				return func(c crash.Call) bool { return isRequest(c, r.talk, turn) }
			}})
		}
	})
	return all
}

// eachReply calls do with each reply of the script and its place in its talk, from 1.
func eachReply(do func(r wantedReply, turn int)) {
	for _, talk := range promptTalks() {
		for turn := 1; ; turn++ {
			r, ok := promptReply(talk, turn)
			if !ok {
				break
			}
			do(r, turn)
		}
	}
}

// replyPiece is a piece of a reply as the script sends it.
type replyPiece struct {
	Text      string    `json:"text"`
	Call      *struct{} `json:"call"`
	Arguments string    `json:"arguments"`
	End       *struct{} `json:"end"`
}

// replySpots are five places of each reply: after its first piece, in its text, in the
// arguments of its first call, before its end, and after its end.
func replySpots() (all []spot) {
	eachReply(func(r wantedReply, turn int) {
		first := r.text[:24] // the script sends pieces of 24 bytes
		places := []spot{
			{name: "the first piece", when: crash.After, arrived: first},
			{name: "the second piece", when: crash.After, arrived: r.text[:48]},
			{name: "the end", when: crash.Before, arrived: r.text},
			{name: "the end", when: crash.After, arrived: r.text},
		}
		if len(r.calls) > 0 {
			places = append(places, spot{name: "the first arguments", when: crash.After, arrived: r.text})
		}
		for i, p := range places {
			piece := p.name
			p.role, p.talk, p.surely = crash.RoleAcode, r.talk, true
			p.match = func() func(crash.Call) bool { return recorded(r.talk, turn, inReply(first, piece)) }
			p.name = fmt.Sprintf("%s of reply %d of %s", piece, turn, r.talk)
			places[i] = p
		}
		all = append(all, places...)
	})
	return all
}

// recorded also accepts the first commit after a request of the planning, which is alone.
// A reply that is recorded although its bytes were never written shows there.
func recorded(talk string, turn int, in func(crash.Call) bool) func(crash.Call) bool {
	asked := false
	return func(c crash.Call) bool {
		if isRequest(c, talk, turn) {
			asked = talk == planTalk
		}
		return in(c) || asked && isCommit(c)
	}
}

// isRequest reports whether c logs the request for a reply.
func isRequest(c crash.Call, talk string, turn int) bool {
	if !isWrite(c) || !strings.HasSuffix(c.Path, "/requests") {
		return false
	}
	r, err := readRequest(c.Data)
	return err == nil && r.talk == talk && r.turn() == turn
}

// inReply returns a test for the call that writes a piece of the reply with these first
// words.
func inReply(first, piece string) func(crash.Call) bool {
	pieces := map[string]int{} // by the file of the reply; 0 for the files of others
	arguments := map[string]bool{}
	return func(c crash.Call) bool {
		var p replyPiece
		if !isWrite(c) || !strings.Contains(c.Path, "/replies/") || json.Unmarshal(c.Data, &p) != nil {
			return false
		}
		if p.Text == first {
			pieces[c.Path] = 0
		} else if _, its := pieces[c.Path]; !its {
			return false
		}
		pieces[c.Path]++
		switch piece {
		case "the first piece":
			return pieces[c.Path] == 1
		case "the second piece":
			return pieces[c.Path] == 2
		case "the end":
			return p.End != nil
		}
		begins := p.Arguments != "" && !arguments[c.Path]
		arguments[c.Path] = arguments[c.Path] || begins
		return begins
	}
}

// commandSpots are before and after each line that a command writes to the ledger.
func commandSpots() (all []spot) {
	eachReply(func(r wantedReply, _ int) {
		for _, c := range r.calls {
			for _, when := range []crash.When{crash.Before, crash.After} {
				if c.mark == "" {
					continue
				}
				all = append(all, spot{name: "the line of " + c.mark, role: crash.RoleCommand, when: when, surely: true, match: func() func(crash.Call) bool {
					return func(call crash.Call) bool {
						return isWrite(call) && strings.HasSuffix(call.Path, "/ledger") && strings.HasPrefix(string(call.Data), c.mark)
					}
				}})
			}
		}
	})
	return all
}

// countedSpots are before and after each step-th call of acode that matches, in all
// processes together. n is their number in an undisturbed session.
func countedSpots(name string, n, step int, match func(crash.Call) bool) (all []spot) {
	for i := 0; i < n; i += step {
		for _, when := range []crash.When{crash.Before, crash.After} {
			seen := 0
			all = append(all, spot{name: fmt.Sprintf("%s %d", name, i+1), role: crash.RoleAcode, when: when, match: func() func(crash.Call) bool {
				return func(c crash.Call) bool {
					if !match(c) {
						return false
					}
					seen++
					return seen == i+1
				}
			}})
		}
	}
	return all
}

// isAny accepts each durable call of acode.
func isAny(c crash.Call) bool { return c.Role == crash.RoleAcode }

// isChange reports whether c changes a directory of the workspace.
func isChange(c crash.Call) bool {
	return isAny(c) && slices.Contains([]crash.Kind{crash.KindRename, crash.KindUnlink, crash.KindLink, crash.KindMkdir}, c.Kind) && strings.Contains(c.Path, "/workspace/")
}

// isWrite reports whether c writes to a regular file.
func isWrite(c crash.Call) bool { return c.Kind == crash.KindWrite }

// isCommit reports whether c makes a commit durable.
func isCommit(c crash.Call) bool {
	return isAny(c) && c.Kind == crash.KindSync && strings.HasSuffix(c.Path, "acode.db-wal")
}
