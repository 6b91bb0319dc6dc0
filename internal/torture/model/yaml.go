package model

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// raw replaces the characters that JSON leaves unchanged and a plan must not contain.
var raw = strings.NewReplacer("\u0085", `\u0085`, "\ufeff", `\ufeff`)

// quote writes a text for YAML in double quotes.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		// A string always has a JSON form.
		panic(err)
	}
	return raw.Replace(string(b))
}

// Title is the task of every plan.
const Title = "Torture the quokka"

// YAML returns the plan in acode's format.
func (p Plan) YAML() string {
	var b strings.Builder
	b.WriteString("version: 1\ntask: " + Title + "\n")
	if p.Policy != "" {
		fmt.Fprintf(&b, "on_failure: %s\n", p.Policy)
	}
	if p.Beside > 0 {
		fmt.Fprintf(&b, "max_parallel: %d\n", p.Beside)
	}
	b.WriteString("tasks:\n")
	for i, t := range p.tasks {
		var on []string
		for _, d := range t.dependsOn {
			on = append(on, quote(d))
		}
		fmt.Fprintf(&b, "  - depends_on: [%s]\n", strings.Join(on, ", "))
		// An id equal to acode's default is omitted.
		if t.id != strconv.Itoa(i+1) {
			fmt.Fprintf(&b, "    id: %s\n", t.id)
		}
		b.WriteString("    steps:\n")
		for j, s := range t.steps {
			fmt.Fprintf(&b, "      - name: %s\n", quote(s.Name()))
			if s.id != strconv.Itoa(j+1) {
				fmt.Fprintf(&b, "        id: %s\n", s.id)
			}
			for _, l := range append(s.yaml, changesYAML(s.Changes)...) {
				fmt.Fprintf(&b, "        %s\n", l)
			}
		}
	}
	return b.String()
}

func changesYAML(cs []Change) []string {
	switch len(cs) {
	case 0:
		return nil
	case 1:
		return []string{cs[0].yaml()}
	}
	lines := []string{"changes:"}
	for _, c := range cs {
		lines = append(lines, "  - "+c.yaml())
	}
	return lines
}

func (c Change) yaml() string {
	switch c.op {
	case "write":
		mode := ""
		if c.mode != 0 {
			mode = fmt.Sprintf(`, mode: "%04o"`, c.mode)
		}
		return fmt.Sprintf("write: {path: %s, content: %s%s}", quote(c.path), quote(c.content), mode)
	case "edit":
		return fmt.Sprintf("edit: {path: %s, old: %s, new: %s, all: %v}", quote(c.path), quote(c.old), quote(c.replacement), c.all)
	case "delete":
		return fmt.Sprintf("delete: {path: %s}", quote(c.path))
	}
	return fmt.Sprintf("move: {from: %s, to: %s}", quote(c.from), quote(c.to))
}
