package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/disk"
	"github.com/acode-dev/acode/internal/scripted"
	"github.com/acode-dev/acode/internal/torture/model"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// The tests are in the package itself, because a package called main cannot be imported.

func TestMain(m *testing.M) {
	crash.LauncherMain()
	rebootMain()
	scripted.Main(time.Now)
	status := m.Run()
	// It is in the directory of temporary files.
	_ = os.RemoveAll(builtDir())
	os.Exit(status)
}

func builtDir() string {
	return filepath.Join(os.TempDir(), "torture-built-"+strconv.Itoa(os.Getpid()))
}

// built is acode, built once for all tests, because each link takes seconds.
var built = sync.OnceValues(func() (string, error) {
	program := filepath.Join(builtDir(), "acode")
	if err := os.MkdirAll(builtDir(), 0o755); err != nil {
		return "", err
	}
	return program, build(context.Background(), program, nil)
})

// testHarness builds acode and makes a scratch directory, in memory where possible.
func testHarness(t *testing.T) *harness {
	t.Helper()
	var o options
	remove, err := o.place()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	if o.acode, err = built(); err != nil {
		t.Fatal(err)
	}
	h := &harness{acode: o.acode, scratch: o.scratch, seed: 1, workers: 2, plan: model.Fixed(), log: t.Output(), now: time.Now}
	t.Cleanup(func() {
		for _, b := range h.breaches {
			t.Errorf("seed %d: %s", h.seed, b)
		}
	})
	return h
}

// sampledPoints is the number of points of each of the four series in a test. Like the
// other samples it is small; make torture takes hundreds. The table in the log shows the
// real number.
const sampledPoints = 5

// FR-013, FR-025, FR-030, NFR-008: after a kill anywhere, a session resumes and ends like
// an undisturbed run, with each effect once. An outcome is uncertain only if the
// supervisor was killed too.
func TestKilledAnywhereEndsTheSame(t *testing.T) {
	h := testHarness(t)
	rows, err := h.kills(t.Context(), options{n: sampledPoints, seed: h.seed})
	if err == nil {
		err = h.table(rows)
	}
	if err != nil {
		t.Error(err)
	}
}

// sampledCalls is the number of points of each series of an agent in a test.
const sampledCalls = 2

// An agent, its server and the supervisor of its commands are killed. The agent comes
// back, makes its last call again, and has each result in the end, with each effect once.
// An outcome is unknown only if the supervisor was killed too.
func TestKilledAgentsEndTheSame(t *testing.T) {
	h := testHarness(t)
	rows, err := h.agents(t.Context(), sampledCalls, false)
	if err == nil {
		err = h.table(rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 6 || rows[5].kills < 20 {
		t.Errorf("agents: got %d series, %d kills in answers, want 6 series and at least 20", len(rows), rows[len(rows)-1].kills)
	}
}

// sampledPlans is the number of random plans in a test.
const sampledPlans = 3

// NFR-010: any combination in a plan ends as the plan says, undisturbed, killed or after
// a power cut.
func TestRandomPlansEndAsComputed(t *testing.T) {
	h := testHarness(t)
	rows, err := h.randomPlans(t.Context(), 1, sampledPlans)
	if err == nil {
		err = h.table(rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, least := range []int{2 * sampledPlans, cutsOfPlan * sampledPlans} {
		if rows[i].points < least {
			t.Errorf("randomPlans: got %d points of %s, want at least %d", rows[i].points, rows[i].name, least)
		}
	}
}

// sampledImages is the number of images in a test.
const sampledImages = 10

// FR-017, NFR-008: acknowledged steps survive a power cut, and the session still ends
// like an undisturbed run. An exit is durable before it is reported, and a name before
// its step is.
func TestPowerCutsLoseNothing(t *testing.T) {
	h := testHarness(t)
	r, err := h.powerCuts(t.Context(), sampledImages, true)
	if err == nil {
		err = h.table([]row{r})
	}
	if err != nil {
		t.Error(err)
	}
	if r.points < sampledImages {
		t.Errorf("powerCuts: got %d images, want %d", r.points, sampledImages)
	}
	if _, err := h.quiet("/bin/true", "control").record(t.Context(), filepath.Join(h.scratch, "control", "current"), true); err == nil {
		t.Error("record: /bin/true passes")
	}
}

// sampledDisks is the number of sessions that a test cuts on each real file system.
const sampledDisks = 3

// FR-017, NFR-005: the same holds on all file systems that can be mounted here, for cuts
// at any write.
func TestPowerCutsOfRealDisks(t *testing.T) {
	if !disk.Alone() {
		out, err := disk.AloneCommand("-test.run=^TestPowerCutsOfRealDisks$", "-test.v", "-test.timeout=20m").CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Error(err)
		}
		return
	}
	h := testHarness(t)
	rows, err := h.onDisks(t.Context(), allDisks, sampledDisks)
	if err == nil {
		err = h.table(rows)
	}
	if err != nil {
		t.Error(err)
	}
	for i, r := range rows {
		if want := []int{sampledDisks, sampledDisks / brokenShare}[i%2]; r.points < want {
			t.Errorf("%s: got %d points, want %d", r.name, r.points, want)
		}
	}
}

// Each bug can be planted into the current sources, and the types still check. A test
// that each is found needs a build of acode for each, so make torture does it.
func TestBugsCanBePlanted(t *testing.T) {
	module, err := moduleDir(t.Context())
	must(t, err)
	typed := typeChecker(t, module)
	for _, b := range bugs() {
		dir := t.TempDir()
		overlay, err := b.overlay(module, dir)
		if err != nil {
			t.Error(err)
			continue
		}
		if typed(b, overlay) == nil {
			continue
		}
		// The edits of a bug may need one another, so the compiler sees them together.
		name := filepath.Join(dir, "overlay.json")
		must(t, os.WriteFile(name, overlay, 0o600))
		args := []string{"build", "-overlay", name}
		for _, e := range b.edits {
			args = append(args, "./"+filepath.Dir(e.file))
		}
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = module
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", b.name, err, out)
		}
	}
	broken := bug{name: "broken", edits: []edit{{"session/id.go", "package session\n", "package session\n\nconst broken int = \"text\"\n"}}}
	overlay, err := broken.overlay(module, t.TempDir())
	must(t, err)
	if typed(broken, overlay) == nil {
		t.Error("types: no error for a text in place of a number")
	}
	missing := bug{name: "none", edits: []edit{{"session/id.go", "no such text", ""}}}
	if _, err := missing.overlay(module, t.TempDir()); err == nil {
		t.Error("overlay: no error for a text that is not there")
	}
}

// typeChecker checks the types of the packages that a bug edits, with all other packages
// unchanged. A compiler takes ten times as long.
func typeChecker(t *testing.T, module string) func(b bug, overlay []byte) error {
	type source struct {
		Dir, ImportPath, Export string
		GoFiles                 []string
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles", "./cmd/acode", "./cmd/acode-agent")
	list.Dir = module
	out, err := list.Output()
	must(t, err)
	exports, sources := map[string]string{}, map[string]source{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var s source
		must(t, d.Decode(&s))
		exports[s.ImportPath], sources[s.Dir] = s.Export, s
	}
	files := token.NewFileSet()
	conf := types.Config{Importer: importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	return func(b bug, overlay []byte) error {
		var planted struct{ Replace map[string]string }
		must(t, json.Unmarshal(overlay, &planted))
		for _, e := range b.edits {
			s := sources[filepath.Join(module, filepath.Dir(e.file))]
			var parsed []*ast.File
			for _, name := range s.GoFiles {
				at := filepath.Join(s.Dir, name)
				if instead, ok := planted.Replace[at]; ok {
					at = instead
				}
				f, err := parser.ParseFile(files, at, nil, parser.SkipObjectResolution)
				if err != nil {
					return err
				}
				parsed = append(parsed, f)
			}
			if len(parsed) == 0 {
				return fmt.Errorf("%s is no part of acode", e.file)
			}
			if _, err := conf.Check(s.ImportPath, files, parsed, nil); err != nil {
				return err
			}
		}
		return nil
	}
}

// orderJudge finds a bug that shows only in the order of calls.
func TestOrderFindsAPlantedBug(t *testing.T) {
	h := testHarness(t)
	for _, b := range bugs() {
		if b.name != "exit reported before recorded" {
			continue
		}
		program, err := b.build(t.Context(), h.scratch)
		must(t, err)
		for want, acode := range map[bool]string{true: program, false: h.acode} {
			found, err := orderJudge().find(t.Context(), h.quiet(acode, "order"))
			must(t, err)
			if (found != "") != want {
				t.Errorf("%s: got %q, want found %v", acode, found, want)
			}
		}
	}
}

// FR-029, NFR-008: the judge counts lost and repeated effects of a session, also if it
// then gets stuck.
func TestEndJudgeCountsPlantedBugs(t *testing.T) {
	h := testHarness(t)
	for _, b := range bugs() {
		if b.name != "claim without task" && b.name != "resume and journal that start over" {
			continue
		}
		program, err := b.build(t.Context(), h.scratch)
		must(t, err)
		found, err := endJudge().find(t.Context(), h.quiet(program, "counted"))
		must(t, err)
		if !strings.Contains(found, b.shows) {
			t.Errorf("%s: got %q, want %q in it", b.name, found, b.shows)
		}
	}
}

// Steps that a stuck session did not reach are not lost.
func TestJudgeOfStuckSession(t *testing.T) {
	steps := model.Fixed().Steps
	// Both sign the ledger.
	done, next := steps[3], steps[4]
	tr := &trial{strict: true, answers: map[string]bool{}, Case: scene.Case{Place: scene.Place{Root: t.TempDir(), Plan: model.Fixed()}}}
	must(t, tr.Prepare(""))
	due := func(s model.Step) bool { return s.Name() == done.Name() }
	must(t, tr.countEffects(due))
	if !slices.Equal(tr.Lost, []string{done.Name()}) || len(tr.Repeated) > 0 {
		t.Errorf("countEffects: got %s, want %s lost", tr.Outcome, done.Name())
	}
	line := "v1:01a1fdbc-b294-7906-ab4e-ce54abc4a0b4:" + next.Name() + "/main:1" + next.Extra + ".\n"
	must(t, os.WriteFile(tr.Ledger(), []byte(line+line), 0o644))
	tr.Lost = nil
	must(t, tr.countEffects(due))
	if len(tr.Lost) != 1 || len(tr.Repeated) != 1 || !strings.HasPrefix(tr.Repeated[0], next.Name()) {
		t.Errorf("countEffects: got %s, want %s lost and %s repeated", tr.Outcome, done.Name(), next.Name())
	}
	tr.Repeated = nil
	tr.CountReceipts(map[string]int{done.Name(): 1, next.Name(): 2})
	if len(tr.Repeated) != 1 || !strings.Contains(tr.Repeated[0], next.Name()) {
		t.Errorf("countReceipts: got %q, want %s", tr.Repeated, next.Name())
	}
}

// An unknown outcome is excused once, by a claim without a record of the end that names a
// killed supervisor.
func TestUnknownIsExcusedByItsClaim(t *testing.T) {
	step := model.Fixed().Steps[3]
	key := func(attempt int) string {
		return fmt.Sprintf("v1:01a1fdbc-b294-7906-ab4e-ce54abc4a0b4:%s/main:%d", step.Name(), attempt)
	}
	block := func(text string) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + strings.Repeat("d", 32) + text
	}
	tr := &trial{strict: true, killed: map[int]bool{7: true}, excused: map[string]bool{},
		Case: scene.Case{Place: scene.Place{Root: t.TempDir(), Plan: model.Fixed()}}}
	dir := filepath.Join(tr.Home(), "commands", "session")
	must(t, os.MkdirAll(dir, 0o755))
	claim := func(attempt, supervisor int, exit string) {
		b := make([]byte, 4096)
		copy(b, block(fmt.Sprintf(`{"key":%q,"supervisor":{"pid":%d}}`, key(attempt), supervisor)))
		if exit != "" {
			copy(b[scene.ExitAt:], block(exit))
		}
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.claim", attempt)), b, 0o600))
	}
	for _, tt := range []struct {
		name string
		make func()
		// excused is the total so far.
		excused int
	}{
		{"no_claim", func() {}, 0},
		{"another_supervisor", func() { claim(1, 8, "") }, 0},
		{"killed", func() { claim(2, 7, "") }, 1},
		{"asked_again", func() {}, 1},
		{"ended", func() { claim(10, 7, `{"exit":0}`) }, 1},
		{"end_not_recorded", func() { claim(11, 7, `{"exit":0,"unknown":"the disk is full"}`) }, 2},
		{"half_a_record", func() { claim(12, 7, `{"exit":`) }, 3},
	} {
		tt.make()
		must(t, tr.excuse(step))
		if tr.Excused != tt.excused {
			t.Errorf("%s: %d are excused, want %d", tt.name, tr.Excused, tt.excused)
		}
	}
}

// Each breach is kept on one line, and their number is limited.
func TestBreachesAreKept(t *testing.T) {
	var log strings.Builder
	h := &harness{log: &log}
	for range breachesShown + 3 {
		h.describe("acode alone\n  lost: a file\n  kept: here")
	}
	if len(h.breaches) != breachesShown || h.breaches[0] != "acode alone lost: a file kept: here" || strings.Count(log.String(), "BREACH") != breachesShown {
		t.Errorf("describe: got %q, log %q, want %d of each", h.breaches, log.String(), breachesShown)
	}
}

// The judge passes only the right end. The other tests depend on this.
func TestJudgeFindsWhatIsWrong(t *testing.T) {
	right := func(t *testing.T) *trial {
		steps := model.Fixed().Steps
		tr := &trial{strict: true, answers: map[string]bool{}, Case: scene.Case{Place: scene.Place{Root: t.TempDir(), Plan: model.Fixed()}}}
		if err := tr.Prepare(""); err != nil {
			t.Fatal(err)
		}
		must(t, os.RemoveAll(tr.Workspace()))
		for _, name := range model.Fixed().Folders() {
			must(t, os.MkdirAll(filepath.Join(tr.Workspace(), name), 0o755))
		}
		for name, f := range model.Fixed().States()[len(steps)] {
			at := filepath.Join(tr.Workspace(), name)
			must(t, os.WriteFile(at, []byte(f.Data), f.Mode))
			must(t, os.Chmod(at, f.Mode))
		}
		ledger := ""
		for _, s := range steps {
			if s.Signs {
				ledger += "v1:01a1fdbc-b294-7906-ab4e-ce54abc4a0b4:" + s.Name() + "/main:1" + s.Extra + ".\n"
			}
		}
		must(t, os.WriteFile(tr.Ledger(), []byte(ledger), 0o644))
		return tr
	}
	file := func(name string) func(*testing.T, *trial) {
		return func(t *testing.T, tr *trial) {
			must(t, os.WriteFile(filepath.Join(tr.Workspace(), name), []byte("other"), 0o644))
		}
	}
	tests := map[string]struct {
		spoil                 func(*testing.T, *trial)
		lost, repeated, wrong int
	}{
		// The missing store is always one breach.
		"nothing":        {func(*testing.T, *trial) {}, 0, 0, 1},
		"other_bytes":    {file("bystander.bin"), 0, 0, 2},
		"leftover":       {file("notes/.acode-1-0.tmp"), 0, 0, 2},
		"file_is_gone":   {func(t *testing.T, tr *trial) { must(t, os.Remove(filepath.Join(tr.Workspace(), "group/empty"))) }, 1, 0, 1},
		"other_mode":     {func(t *testing.T, tr *trial) { must(t, os.Chmod(filepath.Join(tr.Workspace(), "group/empty"), 0o644)) }, 0, 0, 2},
		"other_folder":   {func(t *testing.T, tr *trial) { must(t, os.Mkdir(filepath.Join(tr.Workspace(), "strange"), 0o755)) }, 0, 0, 2},
		"ledger_is_gone": {func(t *testing.T, tr *trial) { must(t, os.Remove(tr.Ledger())) }, 7, 0, 1},
		"ledger_twice": {func(t *testing.T, tr *trial) {
			b, err := os.ReadFile(tr.Ledger())
			must(t, err)
			must(t, os.WriteFile(tr.Ledger(), append(b, b...), 0o644))
		}, 0, 7, 1},
		"ledger_of_others": {func(t *testing.T, tr *trial) { must(t, os.WriteFile(tr.Ledger(), []byte("who?\n"), 0o644)) }, 7, 0, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tr := right(t)
			tt.spoil(t, tr)
			must(t, tr.judge(context.Background()))
			if len(tr.Lost) != tt.lost || len(tr.Repeated) != tt.repeated || len(tr.Wrong) != tt.wrong {
				t.Errorf("judge: got %s, want %d lost, %d repeated, %d wrong", tr.Outcome, tt.lost, tt.repeated, tt.wrong)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// After a power cut acode sees another boot, if root runs the tests.
func TestOtherBoot(t *testing.T) {
	name, err := otherBoot(filepath.Join(t.TempDir(), "x"), 1)
	must(t, err)
	if name == "" {
		if os.Geteuid() == 0 {
			t.Error("otherBoot: root gets none")
		}
		return
	}
	out, err := exec.Command("/proc/self/exe", rebootSwitch, name, "/bin/cat", bootIDPath).CombinedOutput()
	must(t, err)
	want, err := os.ReadFile(name)
	must(t, err)
	if string(out) != string(want) {
		t.Errorf("boot id: got %s, want %s", out, want)
	}
	own, err := os.ReadFile(bootIDPath)
	must(t, err)
	if string(own) == string(want) {
		t.Error("boot id: the test itself sees the other boot")
	}
}

// Points reach every call from both sides, and long rows only at some calls.
func TestPointsCoverTheCalls(t *testing.T) {
	calls := make([]crash.Call, 1003)
	for i := range calls {
		calls[i] = crash.Call{N: i + 1, Name: "pwrite64", Kind: crash.KindWrite, Path: "/log", Length: 8192}
	}
	calls[0] = crash.Call{N: 1, Name: "openat", Kind: crash.KindOpen, Path: "/log"}
	calls[1002] = crash.Call{N: 1003, Name: "fsync", Kind: crash.KindSync, Path: "/log"}
	s := survey{{crash.RoleAcode: calls}}
	rng := rand.New(rand.NewPCG(1, 1))
	sr := allSeries()[0]
	if got, want := len(s.points(sr, 0, true, rng)), 3+3+3*rowKept; got != want {
		t.Errorf("points: got %d, want %d", got, want)
	}
	n := 0
	for share := range 2 {
		n += len(s.points(sr, share, false, rand.New(rand.NewPCG(1, 1))))
	}
	if want := 3 + 3 + 3*rowKept; n != want {
		t.Errorf("shared points: got %d, want %d", n, want)
	}
}
