package main

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Each mutant fits the code, and its tests exist.
func TestTables(t *testing.T) {
	ms, err := load()
	if err != nil {
		t.Fatal(err)
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	count := map[bool]int{}
	for _, m := range ms {
		count[strings.HasPrefix(m.id, named+"/")]++
		if _, err := m.plant(root); err != nil {
			t.Error(err)
		}
		if err := m.claimed(root); err != nil {
			t.Error(err)
		}
	}
	if count[true] != 17 || count[false] < 80 {
		t.Errorf("tables: got %d named and %d other mutants, want 17 and at least 80", count[true], count[false])
	}
}

// judge derives the outcome of a mutant from the output of go test.
func TestJudge(t *testing.T) {
	// Any program with that status works.
	failing := exec.Command("false").Run()
	for name, c := range map[string]struct {
		out  string
		err  error
		by   string
		fail bool
	}{
		"survived":    {"ok  \tacode/lock\t0.1s", nil, "", false},
		"killed":      {"--- FAIL: TestOuter (0.00s)\n    --- FAIL: TestOuter/inner (0.00s)", failing, "TestOuter", false},
		"hangs":       {"panic: test timed out after 2m0s", failing, "time-out", false},
		"panics":      {"panic: index out of range", failing, "panic", false},
		"ends":        {"FAIL\tacode/lock", failing, "end of the test process", false},
		"no_compile":  {"FAIL\tacode/lock [build failed]", failing, "", true},
		"not_started": {"", errors.New("no program go"), "", true},
	} {
		if got := judge(c.out, c.err); got.by != c.by || (got.err != nil) != c.fail {
			t.Errorf("judge of %s: got %+v, want %q, error %v", name, got, c.by, c.fail)
		}
	}
}

// A named mutant that survives is one too many; of the others one in ten may survive.
func TestReport(t *testing.T) {
	for name, c := range map[string]struct {
		// ms holds the killer of each mutant.
		ms     map[string]string
		enough bool
	}{
		"all":            {map[string]string{"named/a": "T", "x/a": "T"}, true},
		"named_survives": {map[string]string{"named/a": "", "x/a": "T"}, false},
		"half_survives":  {map[string]string{"named/a": "T", "x/a": "T", "x/b": ""}, false},
	} {
		var ms []mutant
		var outcomes []outcome
		for id, by := range c.ms {
			ms, outcomes = append(ms, mutant{id: id, why: "it matters"}), append(outcomes, outcome{by: by})
		}
		var out strings.Builder
		if enough, err := report(&out, ms, outcomes); enough != c.enough || err != nil {
			t.Errorf("report of %s: got %v, %v, want %v:\n%s", name, enough, err, c.enough, out.String())
		}
	}
}

// CI plants a seeded sample in packages with quick tests; make mutants plants all. The
// test prints the seed, and ACODE_MUTANTS_SEED sets another one.
func TestSample(t *testing.T) {
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("ACODE_MUTANTS_SEED"), "1"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	o := options{n: 3, seed: seed, run: "^(session|resume|engine)/"}
	ms, err := o.choose()
	if err != nil || len(ms) != o.n {
		t.Fatalf("choose: got %d mutants, %v, want %d", len(ms), err, o.n)
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	enough, err := tryAll(t.Context(), &bench{root: root, scratch: t.TempDir(), timeout: 2 * time.Minute}, ms, 1, &out)
	t.Logf("seed %d:\n%s", seed, &out)
	if err != nil || !enough {
		t.Errorf("a mistake survived, or could not be planted: %v", err)
	}
}
