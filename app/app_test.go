package app_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// door is a door without flags, terminal or person. It remembers its notices.
type door struct {
	app.NoPerson
	begun int
	told  []session.NoticeKind
}

func (d *door) Begin(ctx context.Context, _ app.Delivery) (context.Context, <-chan struct{}) {
	d.begun++
	return ctx, nil
}

func (d *door) Notice(n session.Notice) { d.told = append(d.told, n.Kind) }

func (d *door) Watches() bool { return false }

func (d *door) Waits(time.Duration, error) {}

// house is a store and a workspace.
type house struct {
	t     *testing.T
	setup app.Setup
}

func newHouse(t *testing.T) house {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	environ := map[string]string{"ACODE_HOME": filepath.Join(home, "state"), "ACODE_KEY_KEYRING": "false", "HOME": home}
	getenv := func(name string) string { return environ[name] }
	load := func(string) (*config.Loaded, error) { return config.Load(config.Sources{Getenv: getenv}) }
	settings, err := load("")
	if err != nil {
		t.Fatal(err)
	}
	workspace := filepath.Join(home, "ws")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	return house{t, app.Setup{Settings: settings, Load: load, Workspace: workspace, Redactor: redact.New(nil), KeepLog: true, Command: "test", Now: time.Now, Getenv: getenv}}
}

// in opens the site for one action, as each process does.
func (h house) in(do func(context.Context, *app.Site) error) error {
	h.t.Helper()
	s, err := app.Open(h.t.Context(), h.setup)
	if err != nil {
		h.t.Fatal(err)
	}
	return errors.Join(do(h.t.Context(), s), s.Close())
}

func (h house) resume(ref string) (d *door, out app.Outcome, err error) {
	d = &door{}
	err = h.in(func(ctx context.Context, s *app.Site) (err error) {
		out, err = s.Resume(ctx, d, app.Resume{Ref: ref})
		return err
	})
	return d, out, err
}

func (h house) start(p *session.Plan) (d *door, out app.Outcome) {
	h.t.Helper()
	d = &door{}
	if err := h.in(func(ctx context.Context, s *app.Site) (err error) {
		out, err = s.Start(ctx, d, app.Start{Plan: p})
		return err
	}); err != nil {
		h.t.Fatal(err)
	}
	return d, out
}

// asks returns a plan with a question between two files.
func asks() *session.Plan {
	write := func(id, path string) session.Step {
		return session.Step{ID: id, Kind: session.KindWrite, Changes: []session.Change{{Op: session.KindWrite, Path: path, Content: path}}}
	}
	return &session.Plan{Task: "Two files", Tasks: []session.Task{{ID: "one", Steps: []session.Step{
		write("before", "a"), {ID: "gate", Kind: session.KindApprove, Approve: "Go on?"}, write("after", "b"),
	}}}}
}

// A session needs only package app: it is started, waits for a person, is decided,
// resumed and verified.
func TestWithoutCommandLine(t *testing.T) {
	h := newHouse(t)
	d, out := h.start(asks())
	if out.Result.Code != session.ErrApproval || out.Result.Done != 1 || d.begun != 1 || d.told[len(d.told)-1] != session.NoticeResult {
		t.Fatalf("Start: got %+v, told %v", out.Result, d.told)
	}
	short := out.Session.Short
	if err := h.in(func(ctx context.Context, s *app.Site) error {
		if st, err := s.Status(ctx, ""); err != nil || st.Short != short || st.Running || st.At.Step != 2 {
			t.Errorf("Status: got %+v, %v", st, err)
		}
		if f, err := s.Forecast(ctx, short, app.Choices{}); err != nil || f.Session.Short != short || len(f.Next.Items) != 3 {
			t.Errorf("Forecast: got %+v, %v", f, err)
		}
		decided, err := s.Decide(ctx, app.Verdict{Ref: short, Grant: true, By: "me"})
		if !decided.Recorded {
			t.Errorf("Decide: got %+v, want it recorded", decided)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	d, out, err := h.resume("")
	if err != nil || out.Result.State != session.Completed || slices.Contains(d.told, session.NoticeWarning) {
		t.Fatalf("Resume: got %+v, %v, told %v", out.Result, err, d.told)
	}
	for _, name := range []string{"a", "b"} {
		if got, err := os.ReadFile(filepath.Join(h.setup.Workspace, name)); string(got) != name {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if err := h.in(func(ctx context.Context, s *app.Site) error {
		report, err := s.Verify(ctx, short)
		if report.Sessions != 1 || len(report.Problems) > 0 {
			t.Errorf("Verify: got %+v", report)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// A resume of a session that is over returns an error and the session. It does not call
// Begin.
func TestResumeOfCancelled(t *testing.T) {
	h := newHouse(t)
	_, out := h.start(asks())
	short := out.Session.Short
	if err := h.in(func(ctx context.Context, s *app.Site) error {
		decided, err := s.Cancel(ctx, short, "me", "no need")
		if !decided.Recorded || decided.Kind != session.RequestCancel {
			t.Errorf("Cancel: got %+v", decided)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	d, out, err := h.resume(short)
	if !errors.Is(err, session.ErrTerminal) || out.Session == nil || out.Session.Short != short || d.begun != 0 {
		t.Errorf("Resume: got %+v, %v, begun %d times", out, err, d.begun)
	}
	if _, _, err := h.resume(""); !errors.Is(err, session.ErrNoResumable) {
		t.Errorf("Resume without a session: got %v", err)
	}
}
