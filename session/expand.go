package session

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Expand replaces each ${NAME} in content by values[NAME] if values has NAME, and each
// $${ by a literal ${. It does not change anything else and does not expand inserted
// values again.
func Expand(content string, values map[string]string) string {
	if !strings.Contains(content, "${") {
		return content
	}
	return reference().ReplaceAllStringFunc(content, func(written string) string {
		if written == "$${" {
			return "${"
		}
		if v, ok := values[written[2:len(written)-1]]; ok {
			return v
		}
		return written
	})
}

// References returns the names of the ${NAME} in content, in order.
func References(content string) (names []string) {
	if !strings.Contains(content, "${") {
		return nil
	}
	for _, m := range reference().FindAllStringSubmatch(content, -1) {
		if m[1] != "" {
			names = append(names, m[1])
		}
	}
	return names
}

// reference matches ${NAME}, and $${, which stands for a literal ${.
var reference = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$(?:\$\{|\{([A-Za-z_][A-Za-z0-9_]*)\})`)
})

// ValidVariable reports whether s is a valid name of a capture or an environment
// variable.
func ValidVariable(s string) bool {
	return s != "" && strings.Trim(s, letters+digits+"_") == "" && !strings.Contains(digits, s[:1])
}

// Visibility computes which captures a step can see. It keeps the last answer, so queries
// in the order of execution cost about one lookup for each step. It is not safe for
// concurrent use.
type Visibility struct {
	plan *Plan
	// order holds the indexes of the tasks in order of execution.
	order []int
	// needs holds the indexes of the tasks that each task depends on.
	needs [][]int
	// captures holds the indexes of the capturing steps of each task.
	captures [][]int
	// exports is captures without the steps whose name a later step of the task uses
	// again.
	exports [][]int
	// any says that the plan has a capture.
	any bool

	// task is that of the last answer, or -1 before the first.
	task int
	// next is an index into captures[task]: the first step that last does not contain.
	next int
	last map[string]StepID
}

// NewVisibility returns the Visibility of p, a checked plan that does not change any
// more.
func NewVisibility(p *Plan) *Visibility {
	v := &Visibility{plan: p, needs: make([][]int, len(p.Tasks)), captures: make([][]int, len(p.Tasks)), exports: make([][]int, len(p.Tasks)), task: -1}
	v.order, _ = p.Order()
	index := make(map[string]int, len(p.Tasks))
	for i := range p.Tasks {
		index[p.Tasks[i].ID] = i
	}
	for i := range p.Tasks {
		for _, d := range p.Tasks[i].DependsOn {
			if j, ok := index[d]; ok {
				v.needs[i] = append(v.needs[i], j)
			}
		}
		for j := range p.Tasks[i].Steps {
			if p.Tasks[i].Steps[j].Captures() != "" {
				v.captures[i] = append(v.captures[i], j)
				v.any = true
			}
		}
		v.exports[i] = latest(&p.Tasks[i], v.captures[i])
	}
	return v
}

// latest returns the last capturing step of each name.
func latest(t *Task, captures []int) []int {
	var kept []int
	taken := map[string]bool{}
	for _, s := range slices.Backward(captures) {
		if name := t.Steps[s].Captures(); !taken[name] {
			taken[name] = true
			kept = append(kept, s)
		}
	}
	return kept
}

// At returns the captures that a step can see, with the steps that make them. A step sees
// the captures of earlier steps in its task and of all tasks that its task depends on,
// directly or not. If several steps capture one name, the latest in order of execution
// wins. The arguments are indexes. The caller must not change the map, which is valid
// until the next call.
func (v *Visibility) At(task, step int) map[string]StepID {
	if !v.any {
		return nil
	}
	held := v.captures[task]
	if task != v.task || v.next > 0 && held[v.next-1] >= step {
		v.task, v.next, v.last = task, 0, v.inherited(task)
	}
	for v.next < len(held) && held[v.next] < step {
		v.add(task, held[v.next])
		v.next++
	}
	return v.last
}

func (v *Visibility) add(task, step int) {
	s := &v.plan.Tasks[task].Steps[step]
	v.last[s.Captures()] = StepID{Task: v.plan.Tasks[task].ID, Step: s.ID}
}

// inherited returns the captures of all tasks that task depends on.
func (v *Visibility) inherited(task int) map[string]StepID {
	v.last = map[string]StepID{}
	above := make([]bool, len(v.plan.Tasks))
	todo := slices.Clone(v.needs[task])
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !above[i] {
			above[i] = true
			todo = append(todo, v.needs[i]...)
		}
	}
	for _, i := range v.order {
		if !above[i] {
			continue
		}
		for _, s := range v.exports[i] {
			v.add(i, s)
		}
	}
	return v.last
}
