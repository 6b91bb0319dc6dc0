package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// TestMain also runs this binary as the helper processes of a test: one that executes a
// session, one that follows it, and the supervisor of commands.
func TestMain(m *testing.M) {
	launcher()
	var err error
	switch role := os.Getenv("ACODE_TEST_FOLLOW"); {
	case len(os.Args) > 1 && os.Args[1] == StageCommand:
		os.Exit(Confined(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == SuperviseCommand:
		err = Supervise(context.Background(), os.Args[2:], time.Now)
	case role == "execute":
		err = executeForTest()
	case role == "call":
		err = callForTest(os.Getenv("ACODE_TEST_DIR"), guardedCall().Step.Run.Shell)
	case role == "approve":
		err = approveForTest(os.Getenv("ACODE_TEST_DIR"))
	case role == "follow":
		err = followForTest()
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// said is the content of a notice without the values that are looked up separately.
type said struct {
	Seq    uint64
	TimeUS int64
	Kind   session.NoticeKind
	Item   *session.Item
	Text   string
	Detail []string
	Took   time.Duration
	Result *session.Result
}

func saidBy(n session.Notice) said {
	s := said{Seq: n.Seq, TimeUS: n.TimeUS, Kind: n.Kind, Item: n.Item, Text: n.Text, Detail: n.Detail, Took: n.Took}
	if n.Result != nil {
		r := *n.Result
		r.Next = session.Hint{} // the next step depends on who asks
		s.Result = &r
	}
	return s
}

// writer returns a function that writes each fact as one line.
func writer(to io.Writer) func(session.Notice) {
	return func(n session.Notice) {
		if n.Seq == 0 {
			return
		}
		line, err := json.Marshal(saidBy(n))
		if err == nil {
			_, err = to.Write(append(line, '\n'))
		}
		if err != nil {
			panic(err)
		}
	}
}

func setupForTest(dir string) (Setup, error) {
	environ := map[string]string{"ACODE_HOME": filepath.Join(dir, "state"), "ACODE_KEY_KEYRING": "false", "HOME": dir}
	getenv := func(name string) string { return environ[name] }
	everything := []byte("approvals: {write: allow, delete: allow, command: allow, network: allow, git: allow}\n")
	load := func(string) (*config.Loaded, error) {
		return config.Load(config.Sources{Getenv: getenv, UserFile: "config.yml", UserData: everything})
	}
	settings, err := load("")
	return Setup{Settings: settings, Load: load, Workspace: filepath.Join(dir, "ws"), Redactor: redact.New(nil), Command: "test", Now: time.Now, Getenv: getenv}, err
}

// lines is a door that writes the notices it gets.
type lines struct {
	NoPerson
	tell func(session.Notice)
}

func (l lines) Begin(ctx context.Context, _ Delivery) (context.Context, <-chan struct{}) {
	return ctx, nil
}
func (l lines) Notice(n session.Notice)    { l.tell(n) }
func (l lines) Watches() bool              { return false }
func (l lines) Waits(time.Duration, error) {}

func executeForTest() error {
	dir := os.Getenv("ACODE_TEST_DIR")
	setup, err := setupForTest(dir)
	if err != nil {
		return err
	}
	to, err := os.OpenFile(filepath.Join(dir, "told"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "plan"))
	if err != nil {
		return err
	}
	p := &session.Plan{}
	if err := json.Unmarshal(text, p); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := Open(ctx, setup)
	if err != nil {
		return err
	}
	rows, err := s.List(ctx, true)
	if err != nil {
		return err
	}
	door := lines{tell: writer(to)}
	switch {
	case len(rows) == 0:
		_, err = s.Start(ctx, door, Start{Plan: p})
	case !rows[0].State.Terminal():
		if s.Asks(ctx, rows[0]) {
			for id := range p.All() {
				_, _ = s.Decide(ctx, Verdict{Ref: string(rows[0].ID), Step: id.String(), Grant: true, By: "test"}) // the step may ask nothing
			}
		}
		_, err = s.Resume(ctx, door, Resume{Ref: string(rows[0].ID), Choices: Choices{Uncertain: session.InterruptReruns}})
	}
	return errors.Join(err, s.Close())
}

func followForTest() error {
	setup, err := setupForTest(os.Getenv("ACODE_TEST_DIR"))
	if err != nil {
		return err
	}
	after, err := strconv.ParseUint(os.Getenv("ACODE_TEST_AFTER"), 10, 64)
	if err != nil {
		return err
	}
	s, err := OpenRead(context.Background(), setup)
	if err != nil {
		return err
	}
	_, err = s.Follow(context.Background(), Following{Ref: "@last", After: after, Lines: AllLines}, writer(os.Stdout))
	return errors.Join(err, s.Close())
}

// random returns a plan with every kind of step.
func random(r *rand.Rand) *session.Plan {
	p := &session.Plan{Task: "random", OnFailure: session.FailureContinues, MaxParallel: 1 + r.IntN(3)}
	for t := range 2 + r.IntN(3) {
		task := session.Task{ID: fmt.Sprintf("t%d", t)}
		for n := range 1 + r.IntN(5) {
			step := session.Step{ID: fmt.Sprintf("s%d", n)}
			file := fmt.Sprintf("f%d", r.IntN(4))
			switch r.IntN(7) {
			case 0:
				step.Kind, step.Read = session.KindRead, &session.Read{Path: "there"}
			case 1:
				step.Kind, step.Run = session.KindRun, &session.Run{Shell: fmt.Sprintf("echo out; echo err >&2; sleep 0.0%d; exit %d", r.IntN(8), r.IntN(2)*r.IntN(3))}
			case 2:
				step.Kind, step.Run = session.KindRun, &session.Run{Shell: "sleep 0.05", Check: "exit 1"}
			case 3:
				name := []string{"VALUE", "API_TOKEN"}[r.IntN(2)]
				step.Kind, step.Run = session.KindRun, &session.Run{Shell: fmt.Sprintf("printf 'captured%%s\\n' -%d-%d", t, n), Capture: name}
			case 4:
				step.Kind, step.Approve = session.KindApprove, fmt.Sprintf("Is it %d?", n)
			default:
				step.Kind, step.Changes = session.KindWrite, []session.Change{{Op: session.KindWrite, Path: file, Content: fmt.Sprint(t, n)}}
			}
			task.Steps = append(task.Steps, step)
		}
		p.Tasks = append(p.Tasks, task)
	}
	return p
}

// child starts this binary in a role. It kills the process after ms milliseconds, unless
// ms is 0.
func child(t *testing.T, dir, role string, after uint64, ms int) (out []byte) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if ms > 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
		defer cancel()
		ctx = limited
	}
	cmd := exec.CommandContext(ctx, self) // kills the process
	cmd.Env = append(os.Environ(), "ACODE_TEST_FOLLOW="+role, "ACODE_TEST_DIR="+dir, "ACODE_TEST_AFTER="+strconv.FormatUint(after, 10))
	out, err = cmd.Output()
	if exit := (*exec.ExitError)(nil); ms == 0 && errors.As(err, &exit) {
		t.Errorf("%s: %v: %s", role, err, exit.Stderr)
	}
	return out
}

// parse reads facts. It skips a line that a kill cut short.
func parse(t *testing.T, text []byte) (facts []said) {
	t.Helper()
	for len(text) > 0 {
		n, line, err := bufio.ScanLines(text, false)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		text = text[n:]
		var one said
		if err := json.Unmarshal(line, &one); err == nil { // else the next process wrote after an incomplete line
			facts = append(facts, one)
		}
	}
	return facts
}

// Followers of random runs are killed and start again after the last fact they saw.
// Together they see the history: each fact once and in order. The facts that the
// executing processes told are part of it.
func TestFollowSeesTheHistory(t *testing.T) {
	runs := 6
	if testing.Short() {
		runs = 2
	}
	for run := range runs {
		seed := uint64(time.Now().UnixNano())
		r := rand.New(rand.NewPCG(seed, uint64(run)))
		t.Logf("run %d: seed %d", run, seed)
		followRandom(t, r)
	}
}

func followRandom(t *testing.T, r *rand.Rand) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := random(r)
	text, err := json.Marshal(p)
	if err == nil {
		err = errors.Join(os.Mkdir(filepath.Join(dir, "ws"), 0o755), os.WriteFile(filepath.Join(dir, "ws", "there"), []byte("x"), 0o644), os.WriteFile(filepath.Join(dir, "plan"), text, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	kills := make([]int, 2+r.IntN(4))
	for i := range kills {
		kills[i] = 30 + r.IntN(120)
	}
	over, before := make(chan struct{}), uint64(0)
	go func() {
		defer close(over)
		for _, ms := range kills {
			child(t, dir, "execute", 0, ms)
		}
		before = lastSeq(t, dir)
		for range 4 { // each gate ends a process
			child(t, dir, "execute", 0, 0) // is not killed, and so tells everything it does
		}
	}()
	var seen []said
	last := func() uint64 {
		if len(seen) == 0 {
			return 0
		}
		return seen[len(seen)-1].Seq
	}
	for following := true; following; {
		select {
		case <-over:
			following = false
		default:
			seen = append(seen, parse(t, child(t, dir, "follow", last(), 20+r.IntN(300)))...)
		}
	}
	seen = append(seen, parse(t, child(t, dir, "follow", last(), 0))...)

	history := historyOf(t, dir)
	if diff := cmp.Diff(history, seen); diff != "" {
		t.Errorf("followers saw something else than the history (-history +seen):\n%s", diff)
	}
	told, err := os.ReadFile(filepath.Join(dir, "told"))
	if err != nil {
		t.Fatal(err)
	}
	at := map[uint64]said{}
	for _, f := range history {
		at[f.Seq] = f
	}
	for _, f := range parse(t, told) {
		if diff := cmp.Diff(at[f.Seq], f); diff != "" {
			t.Errorf("the executing process told seq %d otherwise, or twice (-history +told):\n%s", f.Seq, diff)
		}
		delete(at, f.Seq)
	}
	for seq, f := range at {
		if seq > before && f.Kind != session.NoticeSession {
			t.Errorf("the last executing process did not tell %+v", f)
		}
	}
	t.Logf("%d facts, %d kills", len(history), len(kills))
}

func lastSeq(t *testing.T, dir string) (seq uint64) {
	setup, err := setupForTest(dir)
	if err != nil {
		t.Error(err)
		return 0
	}
	s, err := OpenRead(t.Context(), setup)
	if err != nil { // no store exists yet
		return 0
	}
	defer s.Close()
	rows, err := s.List(t.Context(), true)
	if err != nil || len(rows) == 0 {
		return 0
	}
	return rows[0].LastSeq
}

// historyOf returns the facts of the only session.
func historyOf(t *testing.T, dir string) (facts []said) {
	t.Helper()
	setup, err := setupForTest(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	s, err := OpenRead(ctx, setup)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id, err := s.Find(ctx, "@last")
	if err != nil {
		t.Fatal(err)
	}
	_, p, next, err := s.outlook(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	fold := s.facts(ctx, p, next)
	for e, err := range s.events(ctx, id, 0) {
		n, told, ferr := fold.Of(e, nil)
		if err := errors.Join(err, ferr); err != nil {
			t.Fatal(err)
		}
		if told {
			facts = append(facts, saidBy(n))
		}
	}
	if len(facts) == 0 || !slices.IsSortedFunc(facts, func(a, b said) int { return int(a.Seq) - int(b.Seq) }) {
		t.Fatalf("history: got %+v", facts)
	}
	return facts
}
