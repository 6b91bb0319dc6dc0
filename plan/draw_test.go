package plan_test

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/acode-dev/acode/session"
)

func drawPlan(t *rapid.T) *session.Plan {
	p := &session.Plan{Version: 1, Task: "t " + drawLine(t), OnFailure: rapid.SampledFrom([]session.OnFailure{"pause", "fail", "continue"}).Draw(t, "on_failure"), MaxParallel: rapid.IntRange(0, 64).Draw(t, "max_parallel")}
	for i := range rapid.IntRange(0, 2).Draw(t, "params") {
		param := session.Param{Name: fmt.Sprintf("P_%d", i), Required: rapid.Bool().Draw(t, "required"), Description: drawLine(t)}
		if param.Secret = rapid.Bool().Draw(t, "secret"); !param.Secret {
			value := drawWord(t)
			param.Default, param.Choices = &value, []string{value, value + "2"}
		}
		p.Params, p.Inputs = append(p.Params, param), append(p.Inputs, fmt.Sprintf("I_%d", i))
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "tasks") {
		task := session.Task{ID: fmt.Sprintf("t-%d", i), Title: drawLine(t)}
		for j := range i {
			if rapid.Bool().Draw(t, "depends") {
				task.DependsOn = append(task.DependsOn, fmt.Sprintf("t-%d", j))
			}
		}
		for j := range rapid.IntRange(1, 4).Draw(t, "steps") {
			task.Steps = append(task.Steps, drawStep(t, fmt.Sprintf("s_%d", j)))
		}
		p.Tasks = append(p.Tasks, task)
	}
	return p
}

// drawText draws any text, often text that looks like YAML.
func drawText(t *rapid.T) string {
	return rapid.OneOf(rapid.String(), rapid.StringMatching(`[ \-:#&*!|>'"%@{}\[\],?\n\tyesno0-9~\\$é]{0,20}`)).Draw(t, "text")
}

func drawLine(t *rapid.T) string {
	return rapid.StringMatching(`[ \-:#&*!|>'"%@{}\[\],?yesno0-9~\\$é]{0,20}`).Draw(t, "line")
}

func drawWord(t *rapid.T) string { return "x" + strings.ReplaceAll(drawText(t), "\x00", "") }

func drawPath(t *rapid.T) string {
	return path.Clean(rapid.StringMatching(`[a-z# :'"\\-][a-zé .]{0,5}[a-z](/[a-z&*][a-z]{0,3}){0,2}`).Draw(t, "path"))
}

func drawStep(t *rapid.T, id string) session.Step {
	s := session.Step{ID: id, Name: drawLine(t), Kind: rapid.SampledFrom([]session.Kind{"read", "search", "write", "edit", "delete", "move", "changes", "run", "approve", "prompt"}).Draw(t, "kind")}
	switch s.Kind {
	case session.KindRead:
		s.Read = &session.Read{Path: strings.NewReplacer("[", "", `\`, "").Replace(drawPath(t))}
	case session.KindSearch:
		s.Search = &session.Search{Pattern: "x+", Path: drawPath(t)}
	case session.KindRun:
		s.Run = drawRun(t)
	case session.KindApprove:
		s.Approve = "Really? " + drawLine(t)
	case session.KindPrompt:
		s.Prompt = &session.Prompt{Text: "Fix " + drawLine(t), Model: rapid.SampledFrom([]string{"", "small"}).Draw(t, "model"), MaxTurns: rapid.IntRange(1, 100).Draw(t, "turns"),
			Tools: rapid.SampledFrom([][]string{nil, {"files"}, {"commands", "files"}}).Draw(t, "tools")}
	case session.KindChanges:
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			s.Changes = append(s.Changes, drawChange(t, rapid.SampledFrom([]session.Kind{"write", "edit", "delete", "move"}).Draw(t, "op")))
		}
	default:
		s.Changes = []session.Change{drawChange(t, s.Kind)}
	}
	return s
}

func drawChange(t *rapid.T, op session.Kind) session.Change {
	c := session.Change{Op: op}
	switch op {
	case session.KindMove:
		c.From, c.To = drawPath(t), "to/"+drawPath(t)+"2"
		return c
	case session.KindWrite:
		c.Content, c.Mode = drawText(t), uint32(rapid.IntRange(0, 0o777).Draw(t, "mode"))
	case session.KindEdit:
		c.Old, c.New, c.All = drawWord(t), drawText(t), rapid.Bool().Draw(t, "all")
	}
	c.Path = drawPath(t)
	return c
}

func drawRun(t *rapid.T) *session.Run {
	r := &session.Run{Volatile: rapid.Bool().Draw(t, "volatile"), Timeout: time.Duration(rapid.IntRange(0, 1e12).Draw(t, "timeout"))}
	if rapid.Bool().Draw(t, "shell") {
		r.Shell = drawWord(t)
		if rapid.Bool().Draw(t, "with") {
			r.With = []string{drawWord(t), "-c"}
		}
	} else {
		r.Argv = []string{drawWord(t), drawWord(t)}
	}
	if rapid.Bool().Draw(t, "more") {
		r.Dir, r.Check = drawPath(t), drawWord(t)
		if r.TTY = rapid.Bool().Draw(t, "tty"); !r.TTY {
			r.Capture = "NAME_1"
		}
		r.Env = map[string]string{"A": drawWord(t), "_b": ""}
		r.OnInterrupt = rapid.SampledFrom([]session.OnInterrupt{"ask", "rerun", "done", "fail"}).Draw(t, "on_interrupt")
	}
	return r
}

type object = map[string]any

// written returns p in the format of a plan file. JSON is YAML in flow style.
func written(p *session.Plan) []byte {
	var tasks []any
	for _, t := range p.Tasks {
		var steps []any
		for _, s := range t.Steps {
			steps = append(steps, writtenStep(s))
		}
		tasks = append(tasks, filled(object{"id": t.ID, "title": t.Title, "depends_on": t.DependsOn, "steps": steps}))
	}
	file := filled(object{"version": p.Version, "task": p.Task, "on_failure": p.OnFailure, "inputs": p.Inputs, "tasks": tasks})
	if p.MaxParallel > 0 {
		file["max_parallel"] = p.MaxParallel
	}
	var params []any
	for _, param := range p.Params {
		o := filled(object{"name": param.Name, "description": param.Description, "choices": param.Choices})
		o["required"], o["secret"] = param.Required, param.Secret
		if param.Default != nil {
			o["default"] = *param.Default
		}
		params = append(params, o)
	}
	if params != nil {
		file["params"] = params
	}
	b, err := json.Marshal(file)
	if err != nil {
		panic(err)
	}
	return never.ReplaceAllFunc(b, func(r []byte) []byte { return fmt.Appendf(nil, `\u%04x`, []rune(string(r))[0]) })
}

// never matches the characters that must be escaped in a plan.
var never = regexp.MustCompile("[\u0085\u2028\u2029\ufeff\ufffe\uffff]")

// filled returns o without empty values.
func filled(o object) object {
	for k, v := range o {
		switch v := v.(type) {
		case string:
			if v == "" {
				delete(o, k)
			}
		case []string:
			if v == nil {
				delete(o, k)
			}
		case map[string]string:
			if v == nil {
				delete(o, k)
			}
		}
	}
	return o
}

func writtenStep(s session.Step) object {
	o := filled(object{"id": s.ID, "name": s.Name})
	switch s.Kind {
	case session.KindRead:
		o["read"] = object{"path": s.Read.Path}
	case session.KindSearch:
		o["search"] = object{"pattern": s.Search.Pattern, "path": s.Search.Path}
	case session.KindApprove:
		o["approve"] = s.Approve
	case session.KindPrompt:
		o["prompt"], o["max_turns"] = s.Prompt.Text, s.Prompt.MaxTurns
		if s.Prompt.Model != "" {
			o["model"] = s.Prompt.Model
		}
		if s.Prompt.Tools != nil {
			o["tools"] = s.Prompt.Tools
		}
	case session.KindRun:
		writtenRun(o, s.Run)
	case session.KindChanges:
		var all []any
		for _, c := range s.Changes {
			all = append(all, object{string(c.Op): writtenChange(c)})
		}
		o["changes"] = all
	default:
		o[string(s.Kind)] = writtenChange(s.Changes[0])
	}
	return o
}

func writtenChange(c session.Change) object {
	switch c.Op {
	case session.KindMove:
		return object{"from": c.From, "to": c.To}
	case session.KindDelete:
		return object{"path": c.Path}
	case session.KindEdit:
		return object{"path": c.Path, "old": c.Old, "new": c.New, "all": c.All}
	}
	o := object{"path": c.Path, "content": c.Content}
	if c.Mode != 0 {
		o["mode"] = fmt.Sprintf("%04o", c.Mode)
	}
	return o
}

func writtenRun(o object, r *session.Run) {
	o["run"] = r.Shell
	if r.Argv != nil {
		o["run"] = r.Argv
	}
	if r.With != nil {
		o["shell"] = r.With
	}
	o["durable"], o["exclusive"], o["tty"] = !r.Volatile, r.Exclusive, r.TTY
	if r.Timeout > 0 {
		o["timeout"] = r.Timeout.String()
	}
	for k, v := range filled(object{"dir": r.Dir, "capture": r.Capture, "check": r.Check, "env": r.Env, "on_interrupt": string(r.OnInterrupt)}) {
		o[k] = v
	}
}
