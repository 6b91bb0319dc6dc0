package reqs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// row is one line of a table: a requirement and the references that show it.
type row struct {
	id   string
	refs []string
}

// later matches requirements of parts that do not exist yet.
var later = regexp.MustCompile(`^later: agent$`)

// table reads the rows of every table of the document.
func table(t *testing.T) []row {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs", "requirements.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for _, l := range strings.Split(string(data), "\n") {
		cells := strings.Split(strings.Trim(l, "| "), "|")
		if !strings.HasPrefix(l, "| ") || len(cells) < 2 || strings.TrimSpace(cells[0]) == "id" {
			continue
		}
		r := row{id: strings.TrimSpace(cells[0])}
		for _, ref := range strings.Split(cells[len(cells)-1], ",") {
			r.refs = append(r.refs, strings.Trim(ref, " `"))
		}
		rows = append(rows, r)
	}
	return rows
}

// Every requirement, criterion, scenario, threat, code and exit status is listed exactly
// once.
func TestEveryRequirementIsListed(t *testing.T) {
	found := map[string]int{}
	for _, r := range table(t) {
		found[r.id]++
	}
	var want []string
	for _, series := range []struct {
		form string
		last int
	}{
		{"FR-%03d", 65}, {"NFR-%03d", 16}, {"AC-%03d", 62}, {"Scenario %d", 10}, {"Threat %d", 5}, {"ACODE-RESUME-%03d", 7}, {"LOCK-%03d", 3},
	} {
		for i := 1; i <= series.last; i++ {
			want = append(want, fmt.Sprintf(series.form, i))
		}
	}
	want = append(want, "CKPT-001", "FILE-001")
	for _, exit := range []int{0, 1, 2, 3, 10, 11, 12, 14, 15, 16, 17, 18, 19, 20, 22, 23, 129, 130, 143} {
		want = append(want, fmt.Sprintf("exit %d", exit))
	}
	for kind, names := range map[string][]string{
		"command": {"acode resume", "acode resume ID", "acode resume --dry-run ID", "acode session list --resumable", "acode status", "acode session unlock ID", "acode session history ID", "acode run"},
		"output": {"What Gets Skipped", "Resume Recent", "Resume Specific", "List Resumable", "Resume Status", "Environment Validation", "Changed Files", "Normal Mode", "Degraded Mode",
			"Read Operations", "Write Operations", "Partial Writes", "Session Locked", "Terminal State"},
		"key": {"resume.in_progress_strategy", "resume.validate_environment", "resume.changed_files_action", "resume.validation_timeout_seconds"},
		"Claudine": {"US-3.1", "US-3.2", "US-3.3", "US-3.4", "US-3.5", "success 1", "success 2", "success 3", "success 4", "success 5",
			"failure 1", "failure 2", "failure 3", "failure 4", "edge 1", "edge 2", "edge 3", "edge 4", "tool", "approvals"},
		"log": {"event", "session_id", "checkpoint_id", "skipped_tasks", "skipped_steps", "remaining_steps", "in_progress_action", "sync_status", "environment_valid"},
	} {
		for _, name := range names {
			want = append(want, kind+" "+name)
		}
	}
	for _, id := range want {
		if found[id] != 1 {
			t.Errorf("%s: listed %d times, want once", id, found[id])
		}
	}
	if len(found) != len(want) {
		t.Errorf("the document lists %d ids, want %d", len(found), len(want))
	}
}

// Each row also names a test, because CI does not run measurements and campaigns.
func TestNoRowNamesOnlyATarget(t *testing.T) {
	for _, r := range table(t) {
		if !slices.ContainsFunc(r.refs, func(ref string) bool { return !strings.HasPrefix(ref, "make ") }) {
			t.Errorf("%s is shown by %v only", r.id, r.refs)
		}
	}
}

// Each reference names an existing test, script or target, or a later part.
func TestEveryNamedTestExists(t *testing.T) {
	for _, r := range table(t) {
		for _, ref := range r.refs {
			if err := exists(ref); err != nil {
				t.Errorf("%s: %s: %v", r.id, ref, err)
			}
		}
	}
}

// exists refuses references to missing things.
func TestExistsRefuses(t *testing.T) {
	for _, ref := range []string{"", "script/no_such", "resume.TestNoSuch", "no/such.TestName", "resume.table", "make nosuch", "later: never", "later: sync", "TestTerminalStates"} {
		if exists(ref) == nil {
			t.Errorf("exists(%q): got nil, want an error", ref)
		}
	}
}

func exists(ref string) error {
	if later.MatchString(ref) {
		return nil
	}
	if script, ok := strings.CutPrefix(ref, "script/"); ok {
		for _, dir := range []string{"cli", "cli/sync", "cli/agent"} {
			if _, err := os.Stat(filepath.Join(root, dir, "testdata", "script", script+".txtar")); err == nil {
				return nil
			}
		}
		return fmt.Errorf("there is no such script")
	}
	if target, ok := strings.CutPrefix(ref, "make "); ok {
		return contains(filepath.Join(root, "Makefile"), `(?m)^`+regexp.QuoteMeta(target)+`:`)
	}
	dir, name, ok := strings.Cut(ref, ".")
	if !ok || !strings.HasPrefix(name, "Test") {
		return fmt.Errorf("is no reference to a test")
	}
	return contains(filepath.Join(root, dir, "*_test.go"), `(?m)^func `+regexp.QuoteMeta(name)+`\(t \*testing\.T\)`)
}

// contains searches for a pattern in the files of a glob.
func contains(glob, pattern string) error {
	files, err := filepath.Glob(glob)
	if err != nil {
		return err
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if regexp.MustCompile(pattern).Match(data) {
			return nil
		}
	}
	return fmt.Errorf("%d files, and it is in none", len(files))
}
