package people

import (
	"context"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/acode-dev/acode/internal/torture/model"
)

// journal is the content of a copy of the store of one scenario, as sqlite3 reads it.
type journal struct {
	integrity string
	sessions  int
	// others holds the states of another person's sessions.
	others       []string
	short, state string
	// seq is that of the last event.
	seq int
	// status holds the statuses of steps, as the projection has them.
	status map[string]string
	// events holds the events about a step.
	events []event
}

// event is a fact about a step.
type event struct {
	kind    string
	epoch   int
	step    string
	attempt int
	// usable is the epoch that may use an approval.
	usable int
	// by names the source of an order or declaration.
	by string
	// code is that of a failure.
	code string
}

// other is the plan of another person, who works in the same workspace.
const (
	otherTask = "Feed the quokka"
	other     = "version: 1\ntask: " + otherTask + "\ntasks: [{id: feed, steps: [{id: grass, run: sleep 0.2}]}]\n"
)

// otherFile returns the path of the other person's plan.
func (s *Scenario) otherFile() string { return filepath.Join(s.Root, "other.yml") }

// journalQuery reads everything that the judge of a scenario needs.
const journalQuery = `PRAGMA integrity_check;
CREATE TEMP TABLE ours AS SELECT * FROM sessions WHERE task <> '` + otherTask + `';
SELECT 'other', state FROM sessions WHERE task = '` + otherTask + `';
SELECT 'session', short, state, last_seq FROM ours;
SELECT 'step', task || '/' || step, status FROM steps WHERE session_no IN (SELECT no FROM ours);
SELECT 'event', type, epoch, json_extract(payload, '$.task') || '/' || json_extract(payload, '$.step'),
	coalesce(json_extract(payload, '$.attempt'), 0), coalesce(json_extract(payload, '$.for_epoch'), 0),
	coalesce(json_extract(payload, '$.by'), ''), coalesce(json_extract(payload, '$.code'), '')
	FROM events WHERE json_extract(payload, '$.step') IS NOT NULL AND session IN (SELECT no FROM ours) ORDER BY pos;`

// readJournal reads a copy of the store.
func (s *Scenario) readJournal(ctx context.Context) (journal, error) {
	j := journal{status: map[string]string{}}
	out, err := s.Query(ctx, journalQuery)
	for line := range strings.Lines(out) {
		j.add(strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return j, err
}

func (j *journal) add(f []string) {
	switch {
	case f[0] == "session" && len(f) == 4:
		j.sessions++
		j.short, j.state = f[1], f[2]
		j.seq = number(f[3])
	case f[0] == "step" && len(f) == 3:
		j.status[f[1]] = f[2]
	case f[0] == "event" && len(f) == 8:
		j.events = append(j.events, event{f[1], number(f[2]), f[3], number(f[4]), number(f[5]), f[6], f[7]})
	case f[0] == "other" && len(f) == 2:
		j.others = append(j.others, f[1])
	case j.integrity == "":
		j.integrity = f[0]
	}
}

// number reads a number that sqlite3 wrote.
func number(s string) int {
	// The query returns only numbers.
	n, _ := strconv.Atoi(s)
	return n
}

// over reports whether the session can never continue.
func (j journal) over() bool {
	return j.state == "completed" || j.state == "failed" || j.state == "cancelled"
}

// done counts the steps of p with a receipt, up to the first one without.
func (j journal) done(p model.Plan) int {
	n := 0
	for _, s := range p.Steps {
		if j.status[s.Name()] == "completed" {
			n++
		}
	}
	return n
}

// find returns the event of a kind about an attempt of a step.
func (j journal) find(kind, step string, attempt int) (event, bool) {
	for _, e := range j.events {
		if e.kind == kind && e.step == step && e.attempt == attempt {
			return e, true
		}
	}
	return event{}, false
}

// has reports whether there is such an event.
func (j journal) has(kind, step string, attempt int) bool {
	_, ok := j.find(kind, step, attempt)
	return ok
}

// ledgerKey matches the beginning of a line of the ledger.
var ledgerKey = regexp.MustCompile(`^v1:[0-9a-f-]{36}:(.+)/main:([0-9]+)`)

// attempts returns the attempts of each step in a ledger, in their order.
func attempts(ledger string) map[string][]int {
	all := map[string][]int{}
	for line := range strings.Lines(ledger) {
		if m := ledgerKey.FindStringSubmatch(line); m != nil {
			all[m[1]] = append(all[m[1]], number(m[2]))
		}
	}
	return all
}
