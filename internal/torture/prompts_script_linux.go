package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The three tasks that the model plans, each with a prompt of its own. planTalk is the
// talk about the plan.
const planTalk = "Tidy up the shop"

// outcome is the result that a call must have.
type outcome string

const (
	carriedOut outcome = "carried out"
	// acode refuses the call.
	refusedCall outcome = "refused"
	// The rules or a person deny it.
	deniedCall outcome = "denied"
	// The call adopts the plan, so no result follows.
	adoptsPlan outcome = "adopts the plan"
)

// wantedCall is a call of the model, with the result that it must have.
type wantedCall struct {
	tool string
	args string
	want outcome
	// mark is the word that a command writes to the ledger with a random number.
	mark string
	// exit is the exit status of a command.
	exit int
	// shows is part of the result of every call but an unknown one.
	shows string
	// person is yes or no, if a person is asked about the call.
	person string
}

// wantedReply is a reply of the model.
type wantedReply struct {
	talk  string
	text  string
	calls []wantedCall
}

func arguments(pairs ...string) string {
	all := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	raw, err := json.Marshal(all)
	if err != nil {
		panic("torture: strings must encode: " + err.Error())
	}
	return string(raw)
}

// signs is a command that signs the ledger. more follows it.
func signs(mark, more string) wantedCall {
	text := fmt.Sprintf(`line="%s $(od -An -N8 -tx8 /dev/urandom | tr -d ' ')"; printf '%%s\n' "$line" >> ledger; printf '%%s\n' "$line"; %s`, mark, more)
	return wantedCall{tool: "run_command", args: arguments("command", text), mark: mark, want: carriedOut, shows: mark}
}

func calls(tool, shows string, pairs ...string) wantedCall {
	return wantedCall{tool: tool, args: arguments(pairs...), want: carriedOut, shows: shows}
}

func (c wantedCall) but(want outcome, shows string) wantedCall {
	c.want, c.shows = want, shows
	return c
}

// asked lets a person answer a question about the call.
func (c wantedCall) asked(answer string) wantedCall {
	c.person = answer
	return c
}

func (c wantedCall) exits(status int) wantedCall {
	c.exit = status
	return c
}

// proposal is a call that proposes the plan of the three prompts.
func proposal(task, key string) wantedCall {
	var tasks []string
	for _, talk := range []string{"Part a", "Part b", "Part c"} {
		id := strings.ToLower(talk[5:])
		tasks = append(tasks, fmt.Sprintf(`{"id":%q,"steps":[{"id":"code",%q:"%s of the shop","tools":["files","commands"]}]}`, id, key, talk))
	}
	return wantedCall{tool: "propose_plan", args: fmt.Sprintf(`{"task":%q,"max_parallel":3,"tasks":[%s]}`, task, strings.Join(tasks, ","))}
}

// promptScript returns all replies of the model. The last reply of a prompt has no call.
func promptScript() (all []wantedReply) {
	edit := func(path, line string) wantedCall { // done twice, it inserts the line twice
		return calls("edit_file", "Done", "path", path, "old_string", "tail\n", "new_string", line+"\ntail\n")
	}
	for _, part := range []struct {
		talk  string
		turns [][]wantedCall
	}{
		{planTalk, [][]wantedCall{
			{proposal("Tidy up", "promt").but(refusedCall, "promt")},
			{proposal("Throw all away", "prompt").but(deniedCall, "keep the shop").asked("no")},
			{proposal("Tidy up", "prompt").but(adoptsPlan, "").asked("yes")},
		}},
		{"Part a", [][]wantedCall{
			{calls("write_file", "Done", "path", "a.txt", "content", "one\ntail\n"), edit("a.txt", "two")},
			{signs("mark-a1", "sleep 0.1; echo done"), calls("read_file", "two", "path", "a.txt")},
			{signs("mark-a2", "exit 3").exits(3), edit("a.txt", "three")},
			{calls("search", "three", "pattern", "three", "path", "a.txt"), calls("list_files", "a.txt"), signs("mark-a3", "cat a.txt")},
			nil,
		}},
		{"Part b", [][]wantedCall{
			{signs("mark-b1", "sleep 0.2; echo done"), calls("nope", "no tool").but(refusedCall, "no tool")},
			{calls("write_file", "Done", "path", "b.txt", "content", "tail\n"), calls("move_file", "Done", "from", "b.txt", "to", "dir/b.txt")},
			{edit("dir/b.txt", "four"), signs("mark-b2", "cat dir/b.txt"), calls("run_command", "", "command", "git push").but(deniedCall, "DENIED")},
			{calls("run_command", "").but(refusedCall, "command"), calls("read_file", "four", "path", "dir/b.txt")},
			nil,
		}},
		{"Part c", [][]wantedCall{
			{calls("write_file", "Done", "path", "c.txt", "content", "c\n"), calls("write_file", "Done", "path", "keep.txt", "content", "k\n")},
			{signs("mark-c1", "true"), calls("delete_file", "Done", "path", "c.txt").asked("yes")},
			{calls("delete_file", "", "path", "keep.txt").but(deniedCall, "keep the shop").asked("no"), signs("mark-c2", "cat keep.txt")},
			nil,
		}},
	} {
		for i, c := range part.turns {
			all = append(all, wantedReply{talk: part.talk, text: fmt.Sprintf("Reply %d of %s is sent in several pieces of text.", i+1, part.talk), calls: c})
		}
	}
	return all
}

// promptFiles is the workspace after the script, without the ledger.
func promptFiles() map[string]string {
	return map[string]string{"a.txt": "one\ntwo\nthree\ntail\n", "dir/b.txt": "four\ntail\n", "keep.txt": "k\n"}
}
