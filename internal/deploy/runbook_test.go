package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages returns the text below each heading of level three in docs/operations.md.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	name := ""
	for line := range strings.Lines(read(t, "docs", "operations.md")) {
		switch {
		case strings.HasPrefix(line, "### "):
			name = strings.TrimSpace(strings.TrimPrefix(line, "### "))
		case strings.HasPrefix(line, "## "):
			name = ""
		default:
			out[name] += line
		}
	}
	return out
}

// Each alert has a page: its meaning, where to look, the action to take and the things to
// leave alone.
func TestEveryAlertHasAPage(t *testing.T) {
	found := pages(t)
	var names []string
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
		page, ok := found[a.Alert]
		if !ok {
			t.Errorf("%s: docs/operations.md has no heading `### %s`", a.Alert, a.Alert)
			continue
		}
		for _, part := range []string{"**Means:**", "**Look:**", "**Do:**", "**Do not:**"} {
			if strings.Count(page, part) != 1 {
				t.Errorf("%s: its page has %s %d times, want once", a.Alert, part, strings.Count(page, part))
			}
		}
		if severity := a.Labels["severity"]; !strings.HasPrefix(strings.TrimSpace(page), "*"+severity+".*") {
			t.Errorf("%s: its page does not begin with the severity %q of the rule", a.Alert, severity)
		}
		if url := a.Annotations["runbook_url"]; !strings.HasSuffix(url, "/docs/operations.md#"+strings.ToLower(a.Alert)) {
			t.Errorf("%s: runbook_url %s does not lead to its page", a.Alert, url)
		}
	}
	for name := range found {
		if strings.HasPrefix(name, "Acode") && !slices.Contains(names, name) {
			t.Errorf("docs/operations.md: the page %s has no alert", name)
		}
	}
}

// Each alert names the machine and its urgency.
func TestEveryAlertSaysWhatItIs(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range alerts(t) {
		if seen[a.Alert] {
			t.Errorf("%s: there are two", a.Alert)
		}
		seen[a.Alert] = true
		if !slices.Contains([]string{"info", "warning", "critical"}, a.Labels["severity"]) {
			t.Errorf("%s: severity %q is none", a.Alert, a.Labels["severity"])
		}
		if !strings.Contains(a.Annotations["summary"], "$labels.instance") || a.Annotations["description"] == "" {
			t.Errorf("%s: want a summary that names the machine, and a description", a.Alert)
		}
	}
}

// The table of states holds every state that an operator can meet.
func TestEveryStateIsExplained(t *testing.T) {
	table := pages(t)["The states"]
	for _, state := range states() {
		if !strings.Contains(table, "| `"+state+"` |") {
			t.Errorf("docs/operations.md: the state %s is not explained", state)
		}
	}
}

// Text that is pasted at night destroys nothing. No command in a code block or in
// backquotes removes files or kills by name.
func TestPagesHoldNoDestructiveCommand(t *testing.T) {
	destructive := regexp.MustCompile("(?m)(?:^    |`)(?:sudo )?(?:rm|mv [^/]|kill|pkill|killall|dropdb|truncate|acode sync parked drop|docker compose down)\\b.*")
	for name, page := range pages(t) {
		for _, found := range destructive.FindAllString(page, -1) {
			t.Errorf("%s: %s", name, strings.TrimSpace(found))
		}
	}
	for name, page := range pages(t) {
		for _, found := range regexp.MustCompile("`acode admin prune[^`]*`").FindAllString(page, -1) {
			if !strings.Contains(found, "--dry-run") {
				t.Errorf("%s: %s drops data at once", name, found)
			}
		}
	}
	if !destructive.MatchString("    rm -rf store\n") || !destructive.MatchString("try `sudo kill -9 1`") {
		t.Error("the pattern finds nothing")
	}
}

// The installation copies files that exist.
func TestEveryNamedFileExists(t *testing.T) {
	// The reader makes this file.
	made := "deploy/compose/.env"
	found := regexp.MustCompile(`\bdeploy/[a-z0-9/._-]*[a-z0-9]`).FindAllString(read(t, "docs", "operations.md"), -1)
	if len(found) < 6 {
		t.Errorf("docs/operations.md names %q, want the files that are installed", found)
	}
	for _, path := range found {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil && path != made {
			t.Errorf("docs/operations.md: %v", err)
		}
	}
}
