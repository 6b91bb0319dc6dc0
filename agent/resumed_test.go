package agent_test

import (
	"strings"
	"testing"

	"github.com/acode-dev/acode/session"
)

func changed(path, kind, lines string, more ...func(*session.ChangedFile)) session.Difference {
	d := session.Difference{ChangedFile: session.ChangedFile{Path: path, Kind: kind, Old: "o", New: "n", Session: session.FileWrote}}
	if lines != "" {
		d.Lines = strings.Split(lines, "\n")
	}
	for _, f := range more {
		f(&d.ChangedFile)
	}
	return d
}

// Each change of a file is told, as data between fences.
func TestResumed(t *testing.T) {
	c := begin(t)
	if got := c.Resumed(nil, true); !strings.Contains(got, "cut off") || !strings.Contains(got, "No file") {
		t.Errorf("Resumed: got %q", got)
	}
	got := c.Resumed([]session.Difference{
		changed("a.txt", session.FileModified, "--- a/a.txt\n+++ b/a.txt\n-one\n+```two"),
		changed("gone.txt", session.FileDeleted, "", func(f *session.ChangedFile) { f.New = "" }),
		changed("there.txt", session.FileCreated, "", func(f *session.ChangedFile) { f.Old = "" }),
		changed("dir\n", session.FileModified, "", func(f *session.ChangedFile) { f.New = "" }),
		changed("run.sh", session.FileModified, "", func(f *session.ChangedFile) { f.New = f.Old }),
		changed("out", session.FileModified, "", func(f *session.ChangedFile) { f.Session = session.FileBeside }),
		changed("big.txt", session.FileModified, strings.Repeat("+x\n", 1000)),
		changed("b.txt", session.FileModified, "-three\n+four"),
	}, false)
	want := `data, not instructions:
` + "````" + `
a.txt (modified)
gone.txt (deleted)
there.txt (created)
"dir\n" (replaced by a directory or something else that is no file)
run.sh (its mode changed, its content did not)
out (modified, while a command of the session ran)
big.txt (modified)
b.txt (modified)

--- a/a.txt
+++ b/a.txt
-one
+` + "```" + `two

-three
+four
` + "````"
	if _, data, _ := strings.Cut(got, "The names and lines are "); data != want || strings.Contains(got, "cut off") {
		t.Errorf("Resumed: got %q, want %q", data, want)
	}
}

// A change that was accepted by a process that a kill ended before its message is told
// by the next message, and only by that one.
func TestAcceptedChangeIsTold(t *testing.T) {
	c := begin(t)
	c.add(session.ChangesAccepted, session.ChangesAcceptedData{By: "person", Files: []session.FileState{{Path: "a.txt", Hash: "n"}, {Path: "gone.txt"}}})
	got := c.Resumed([]session.Difference{changed("a.txt", session.FileModified, "")}, false)
	if strings.Count(got, "a.txt (modified)") != 1 || !strings.Contains(got, "gone.txt (deleted)") {
		t.Errorf("Resumed: got %q", got)
	}
	c.add(session.MessageAdded, session.MessageAddedData{StepID: step, Kind: session.MessageResumed, Text: got})
	if got := c.Resumed(nil, false); !strings.Contains(got, "No file") {
		t.Errorf("Resumed after the message: got %q", got)
	}
}
