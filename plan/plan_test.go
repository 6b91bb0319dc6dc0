package plan_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/session"
)

var update = flag.Bool("update", false, "write the golden files")

// A wrong plan gives one clear error with code, place and next step. The golden file
// holds the texts.
func TestParseErrors(t *testing.T) {
	const file = "testdata/errors.txt"
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(archive.Files); i += 2 {
		in, want := archive.Files[i], &archive.Files[i+1]
		t.Run(in.Name, func(t *testing.T) {
			got := describe(t, in.Data)
			if *update {
				want.Data = []byte(got)
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
		})
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func describe(t *testing.T, data []byte) string {
	t.Helper()
	p, err := plan.Parse("plan.yml", data)
	var e *session.Error
	if !errors.As(err, &e) {
		t.Fatalf("Parse: got %v, %v, want a *session.Error", p, err)
	}
	if p != nil || e.Code != session.ErrPlan || e.Next.IsZero() || !strings.HasPrefix(e.Place, "plan.yml:") {
		t.Errorf("Parse: got %v, %+v, want no plan and code, place and next step", p, e)
	}
	return fmt.Sprintf("%v\nhint: %s\n", e, e.Next)
}

func TestParseEveryKind(t *testing.T) {
	got, err := plan.Load("testdata/kinds.yml")
	if err != nil {
		t.Fatal(err)
	}
	want := &session.Plan{Version: 1, Task: "Add input validation", OnFailure: session.FailureContinues, Tasks: []session.Task{
		{ID: "prepare", Title: "Prepare", Steps: []session.Step{
			{ID: "look", Name: "Look", Kind: session.KindRead, Read: &session.Read{Path: "src/**/*.go"}},
			{ID: "find", Kind: session.KindSearch, Search: &session.Search{Pattern: "TODO", Path: "src"}},
			{ID: "3", Kind: session.KindSearch, Search: &session.Search{Pattern: "x+", Path: "."}},
			{ID: "note", Kind: session.KindWrite, Changes: []session.Change{{Op: session.KindWrite, Path: "notes.txt", Content: "hello\n", Mode: 0o644}}},
			{ID: "literal", Kind: session.KindWrite, Changes: []session.Change{{Op: session.KindWrite, Path: "a/b", Content: "one\n  two\n"}}},
			{ID: "fix", Kind: session.KindEdit, Changes: []session.Change{{Op: session.KindEdit, Path: "notes.txt", Old: "hello", New: "goodbye"}}},
			{ID: "every", Kind: session.KindEdit, Changes: []session.Change{{Op: session.KindEdit, Path: "notes.txt", Old: "o", All: true}}},
			{ID: "drop", Kind: session.KindDelete, Changes: []session.Change{{Op: session.KindDelete, Path: `back\slash`}}},
			{ID: "put", Kind: session.KindMove, Changes: []session.Change{{Op: session.KindMove, From: "a", To: "b"}}},
			{ID: "both", Kind: session.KindChanges, Changes: []session.Change{
				{Op: session.KindWrite, Path: "a", Content: "x"},
				{Op: session.KindEdit, Path: "a", Old: "x", New: "y"},
				{Op: session.KindDelete, Path: "b"},
				{Op: session.KindMove, From: "c", To: "d"},
			}},
		}},
		{ID: "2", DependsOn: []string{"prepare"}, Steps: []session.Step{
			{ID: "make", Kind: session.KindRun, Run: &session.Run{
				Shell: "make all", Env: map[string]string{"MODE": "release"}, Timeout: 10 * time.Minute, Capture: "VERSION",
				Check: "test -f bin/app", OnInterrupt: session.InterruptReruns, Volatile: true,
			}},
			{ID: "2", Kind: session.KindRun, Run: &session.Run{Argv: []string{"echo", "a b", ""}, Dir: "sub/dir", Exclusive: true, TTY: true}},
			{ID: "gate", Kind: session.KindApprove, Approve: "Deploy to production?"},
			{ID: "think", Kind: session.KindPrompt, Prompt: &session.Prompt{Text: "Fix the test", Tools: []string{"files", "commands"}, Model: "small", MaxTurns: 20, Capture: "ANSWER"}},
		}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
}

func TestLoadExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob: %v, %v", files, err)
	}
	for _, file := range files {
		if _, err := plan.Load(file); err != nil {
			t.Errorf("Load(%s): %v", file, err)
		}
	}
}

func TestLoadUnreadable(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yml")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 1<<40); err != nil { // The file is sparse. To read it would take minutes.
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yml"): "none.yml: the file cannot be read: no such file or directory",
		dir:                            "the file cannot be read: is a directory",
		large:                          "large.yml: the file is larger than 16 MiB; acode did not read it",
	} {
		_, err := plan.Load(path)
		if !errors.Is(err, session.ErrPlan) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("Load: got %v, want %s", err, want)
		}
	}
}

// A plan may come through a pipe. The limit applies there too.
func TestLoadPipe(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"small":     {[]byte("version: 1\ntask: t\ntasks: [{steps: [{run: x}]}]\n"), nil},
		"unlimited": {bytes.Repeat([]byte("# filler\n"), plan.MaxBytes/8), session.ErrPlan},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pipe")
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			wrote := make(chan error, 1)
			go func() { wrote <- os.WriteFile(path, c.data, 0o600) }()
			_, err := plan.Load(path)
			if !errors.Is(err, c.want) {
				t.Errorf("Load: got %v, want %v", err, c.want)
			}
			<-wrote // The writer of the second pipe gets EPIPE.
		})
	}
}

func TestLarge(t *testing.T) {
	if plan.Large(1<<20) || !plan.Large(1<<20+1) {
		t.Error("Large: got another limit, want 1 MiB")
	}
}
