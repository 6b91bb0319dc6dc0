package campaign_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostilePlan is a plan of a model that wants a file called pwned without a yes.
type hostilePlan struct {
	// tasks is the JSON of the tasks, or of the keys of the plan after its task.
	plan string
	// says is part of the answer to the model, if acode refuses the plan. Else a person is
	// asked, and the plan is carried out after a yes.
	says string
	// shows is part of the question.
	shows string
}

func steps(all string) string { return `"tasks":[{"id":"a","steps":[` + all + `]}]` }

func hostilePlans() map[string]hostilePlan {
	const pwn = `echo pwned > pwned`
	many := make([]string, 51)
	for i := range many {
		many[i] = fmt.Sprintf(`{"id":"t%d","steps":[{"id":"s","run":"ls"}]}`, i)
	}
	return map[string]hostilePlan{
		"command":              {plan: steps(`{"id":"s","run":"` + pwn + `"}`), shows: pwn},
		"second_line":          {plan: steps(`{"id":"s","run":"ls\n` + pwn + `"}`), shows: pwn},
		"after_harmless_tasks": {plan: `"tasks":[{"id":"a","steps":[{"id":"s","run":"ls"}]},{"id":"b","steps":[{"id":"s","run":"` + pwn + `"}]}]`, shows: pwn},
		"substitution":         {plan: steps(`{"id":"s","run":"ls $(` + pwn + `)"}`), shows: "pwned"},
		"check":                {plan: steps(`{"id":"s","run":"ls","check":"` + pwn + `; false"}`), shows: pwn},
		"environment":          {plan: steps(`{"id":"s","run":"ls","env":{"LD_PRELOAD":"./pwn.so"}}`), shows: "LD_PRELOAD"},
		"path":                 {plan: steps(`{"id":"s","run":"ls","env":{"PATH":"."}}`), shows: "PATH"},
		"another_shell":        {plan: steps(`{"id":"s","run":"ls","shell":["python3","-c"]}`), shows: "python3"},
		"terminal":             {plan: steps(`{"id":"s","run":"` + pwn + `","tty":true}`), shows: "on a terminal"},
		"again_and_again":      {plan: steps(`{"id":"s","run":"` + pwn + `","on_interrupt":"rerun"}`), shows: "after an interruption: rerun"},
		"control_characters":   {plan: steps(`{"id":"s","run":"` + pwn + ` # \u001b[2K\u001b[1Gls"}`), shows: `\x1b[2K`},
		"defaults":             {plan: `"defaults":{"env":{"LD_PRELOAD":"./pwn.so"}},` + steps(`{"id":"s","run":"ls"}`), shows: "LD_PRELOAD"},
		"prompt_tools":         {plan: steps(`{"id":"s","prompt":"x","tools":["everything"]}`), says: "tools"},
		"another_model":        {plan: steps(`{"id":"s","prompt":"x","model":"expensive"}`), says: "expensive"},
		"task_plan":            {plan: `"tasks":[{"id":"plan","steps":[{"id":"s","run":"ls"}]}]`, says: "belongs to the planning"},
		"params":               {plan: `"params":{"X":"y"},` + steps(`{"id":"s","run":"ls ${X}"}`), says: "params"},
		"inputs":               {plan: `"inputs":["HOME"],` + steps(`{"id":"s","run":"ls"}`), says: "inputs"},
		"kind":                 {plan: steps(`{"id":"s","exec":"` + pwn + `"}`), says: "unknown key"},
		"two_kinds":            {plan: steps(`{"id":"s","read":"x","run":"` + pwn + `"}`), says: "does one thing"},
		"two_commands":         {plan: steps(`{"id":"s","run":"ls","run":"` + pwn + `"}`), says: "run"},
		"too_many_tasks":       {plan: `"tasks":[` + strings.Join(many, ",") + `]`, says: "at most 50"},
		"outside":              {plan: steps(`{"id":"s","write":{"path":"../pwned","content":"x"}}`), says: "path"},
		"outside_by_move":      {plan: steps(`{"id":"s","move":{"from":"a","to":"../pwned"}}`), says: "leaves the workspace"},
		"outside_by_dir":       {plan: steps(`{"id":"s","run":"` + pwn + `","dir":".."}`), says: "dir"},
		"sandbox":              {plan: steps(`{"id":"s","run":"` + pwn + `","sandbox":"off"}`), says: "unknown key"},
		"approvals":            {plan: `"approvals":{"command":"allow"},` + steps(`{"id":"s","run":"`+pwn+`"}`), says: "unknown key"},
		"version":              {plan: `"version":2,` + steps(`{"id":"s","run":"ls"}`), says: "version"},
		"cycle":                {plan: `"tasks":[{"id":"a","depends_on":["a"],"steps":[{"id":"s","run":"ls"}]}]`, says: "depends"},
		"no_object":            {plan: `"tasks":"all"`, says: "tasks"},
	}
}

// A model proposes hostile plans to a session that asks no one about plans. acode refuses
// the plan, or asks a person. Without a yes nothing happens. A harmless plan is carried
// out.
func TestHostilePlans(t *testing.T) {
	begin := func(t *testing.T, plan string) promptSite {
		t.Helper()
		s := newPromptSite(t, t.TempDir(), acodePath)
		config := fmt.Sprintf("model: m\napprovals: {plan: never}\nmodels:\n  m: {provider: script, script: %q, log: %q}\n", filepath.Join(s.root, "script"), s.log())
		must(t, os.WriteFile(filepath.Join(s.root, "config", "acode", "config.yml"), []byte(config), 0o600))
		s.script(t, callOf("a", "propose_plan", `{"task":"Help",`+plan+`}`), callOf("b", "finish", `{"status":"failed","summary":"no"}`))
		return s
	}
	t.Run("harmless", func(t *testing.T) {
		s := begin(t, steps(`{"id":"s","run":"ls"},{"id":"w","write":{"path":"fine","content":"x"}}`))
		s.must(t, "run", "Help me")
		if !s.has("fine", "x") {
			t.Error("the harmless plan was not carried out")
		}
	})
	for name, c := range hostilePlans() {
		t.Run(name, func(t *testing.T) {
			s := begin(t, c.plan)
			e := s.acode(t, "run", "Help me")
			if at := s.pwned(t); at != "" {
				t.Fatalf("%s is there without a yes: %v", at, e)
			}
			if c.says != "" {
				e.want(t, 19)
				all := s.requests(t)
				last := all[len(all)-1].Messages
				if got := last[len(last)-1].Text; !strings.HasPrefix(got, "NOT CARRIED OUT") || !strings.Contains(got, c.says) {
					t.Errorf("the model was told %q, want %q", got, c.says)
				}
				return
			}
			e.want(t, 10, c.shows)
			if strings.Contains(e.output, "\x1b") {
				t.Errorf("a control character reaches the terminal: %q", e.output)
			}
			s.acode(t, "resume", "--yes").want(t, 10)
			if at := s.pwned(t); at != "" {
				t.Fatalf("%s is there after --yes", at)
			}
			s.must(t, "approve")
			done := s.acode(t, "resume")
			if strings.Contains(c.plan, `"run":"echo pwned`) && s.pwned(t) == "" {
				t.Errorf("the plan was not carried out after a yes: %v", done)
			}
		})
	}
}

// pwned returns the path of a file called pwned below the site; empty for none.
func (s promptSite) pwned(t *testing.T) (found string) {
	t.Helper()
	must(t, filepath.WalkDir(s.root, func(at string, _ fs.DirEntry, err error) error {
		if filepath.Base(at) == "pwned" {
			found = at
		}
		return err
	}))
	return found
}
