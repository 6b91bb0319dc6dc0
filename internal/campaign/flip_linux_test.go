package campaign_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// smallPlan uses every part of a store: blobs in plain text, sealed and in a file, an
// approval, claims with and without a receipt, and a capture.
const smallPlan = `version: 1
task: Small session for tampering
tasks:
  - id: prepare
    steps:
      - {id: ask, approve: "Go on?"}
      - {id: look, read: {path: "*.txt"}}
      - {id: note, write: {path: notes.txt, content: "hello notes\n"}}
      - {id: secret, write: {path: secret.txt, content: "password=hunter2hunter2hunter2\n"}}
      - {id: big, edit: {path: big.txt, old: "first line", new: "FIRST line"}}
      - {id: change, edit: {path: notes.txt, old: hello, new: goodbye}}
      - {id: sign, run: "echo \"$ACODE_IDEMPOTENCY_KEY\" >> \"$LEDGER\"; echo v9.9", capture: VER}
      - {id: hold, run: "echo \"$ACODE_IDEMPOTENCY_KEY\" >> \"$LEDGER\"; while test -e \"$GATE\"; do sleep 0.02; done"}
      - {id: after, write: {path: after.txt, content: "after ${VER}\n"}}
      - {id: last, run: "echo \"$ACODE_IDEMPOTENCY_KEY $VER\" >> \"$LEDGER\""}
`

func bigText(rng *rand.Rand) string {
	var b strings.Builder
	b.WriteString("first line\n")
	for b.Len() < 70<<10 {
		fmt.Fprintf(&b, "line %d of a big file %x\n", b.Len(), rng.Uint32())
	}
	return b.String()
}

// smallSession runs smallPlan until its last command but one runs, kills acode, and lets
// that command end. No process of the session runs when it returns.
func smallSession(t testing.TB, dir string) site {
	t.Helper()
	s := newSite(t, dir, smallPlan, map[string]string{"big.txt": bigText(rand.New(rand.NewPCG(1, 1))), "other.txt": "other\n"})
	s.closeGate(t)
	if e := s.acode(t, "run", "--plan", s.plan()); e.exit != 10 {
		t.Fatalf("%v; want exit 10", e)
	}
	s.must(t, "approve", s.id(t))
	p := s.start(t, "resume", s.id(t))
	eventually(t, "the command runs", func() bool { return s.inLedger(t, "prepare/hold/") })
	p.signal(9)
	if e := p.wait(t); e.exit != -1 {
		t.Fatalf("%v; want it killed", e)
	}
	s.openGate(t)
	s.quiet(t)
	return s
}

// frames returns the length of the live part of the log, and the offset of the end of
// each commit in it.
func frames(t testing.TB, wal []byte) (live int, commits []int) {
	t.Helper()
	if len(wal) < 32 {
		t.Fatal("the log has no header")
	}
	page := int(binary.BigEndian.Uint32(wal[8:]))
	for at := 32; at+24+page <= len(wal) && bytes.Equal(wal[at+8:at+16], wal[16:24]); at += 24 + page {
		if binary.BigEndian.Uint32(wal[at+4:]) != 0 {
			commits = append(commits, at+24+page)
		}
	}
	if len(commits) == 0 {
		t.Fatal("the log has no commit")
	}
	return commits[len(commits)-1], commits
}

// inLog cuts the stale part off the log. Nearly all of the session is in the log.
func (s site) inLog(t testing.TB) {
	t.Helper()
	name := filepath.Join(s.store(), "acode.db-wal")
	b, err := os.ReadFile(name)
	must(t, err)
	live, _ := frames(t, b)
	must(t, os.Truncate(name, int64(live)))
}

// inDatabase moves everything into the database and removes the log.
func (s site) inDatabase(t testing.TB) {
	t.Helper()
	if e := s.acode(t, "resume", "zzzzzz"); e.exit != 14 {
		t.Fatalf("%v; want exit 14", e)
	}
	before := dump(t, s.store())
	must(t, os.Remove(filepath.Join(s.store(), "acode.db-wal")))
	if after := dump(t, s.store()); after != before {
		t.Fatal("the log held rows that the database does not")
	}
}

// flip is one bit of a file of the store.
type flip struct {
	// file is relative to the store.
	kind, file string
	at         int
	bit        uint
}

func (f flip) String() string {
	return fmt.Sprintf("%s: %s byte %d bit %d", f.kind, f.file, f.at, f.bit)
}

// kinds returns the file patterns to flip, with the share of each in a sample.
func kinds(database bool) map[string]int {
	if database {
		return map[string]int{"acode.db": 60}
	}
	return map[string]int{
		"acode.db-wal": 34, "blobs/*": 10, "heads/*": 8, "key": 6, "commands/*/*.claim": 18, "commands/*/epoch": 4,
		"commands/*/supervisor.lock": 3, "locks/*.lock": 4, "locks/*/run": 3, "locks/*/command": 3,
	}
}

// flips lists the flips of a store: every byte once, or n of each hundred of a sample.
func flips(t testing.TB, base string, database, all bool, percent int, rng *rand.Rand) []flip {
	t.Helper()
	shares := kinds(database)
	var out []flip
	for _, pattern := range slices.Sorted(maps.Keys(shares)) {
		files, err := filepath.Glob(filepath.Join(base, "store", pattern))
		must(t, err)
		if len(files) == 0 {
			t.Fatalf("no file of the store is named %s", pattern)
		}
		var kind []flip
		for _, name := range files {
			b, err := os.ReadFile(name)
			must(t, err)
			rel, err := filepath.Rel(filepath.Join(base, "store"), name)
			must(t, err)
			for at := range b {
				// Most of a page is empty, so a sample visits the empty part rarely.
				if all || b[at] != 0 || rng.IntN(40) == 0 {
					kind = append(kind, flip{pattern, rel, at, uint(rng.IntN(8))})
				}
			}
		}
		if !all {
			rng.Shuffle(len(kind), func(i, j int) { kind[i], kind[j] = kind[j], kind[i] })
			kind = kind[:min(len(kind), max(1, shares[pattern]*percent/100))]
		}
		out = append(out, kind...)
	}
	return out
}

// campaign flips bytes of one session in its own directory.
type campaign struct {
	site site
	// base is a copy of all files before the resume.
	base string
	// rows is the dump of base by sqlite3.
	rows   string
	before map[string]string
	ledger []string
	// end is the tree after an undisturbed resume.
	end  map[string]string
	last []string
}

// newCampaign makes a session and records its undisturbed resume.
func newCampaign(t testing.TB, dir string, database bool) *campaign {
	t.Helper()
	c := &campaign{site: smallSession(t, filepath.Join(dir, "site")), base: filepath.Join(dir, "base")}
	if database {
		c.site.inDatabase(t)
	} else {
		c.site.inLog(t)
	}
	must(t, copyTree(c.site.root, c.base))
	c.rows, c.before, c.ledger = dump(t, c.site.store()), tree(t, c.site.ws()), c.site.lines(t)
	c.site.must(t, "verify")
	c.site.must(t, "resume", c.site.id(t))
	c.end, c.last = tree(t, c.site.ws()), c.site.lines(t)
	if len(c.last) != 3 || len(c.end) != len(c.before)+1 {
		t.Fatalf("an undisturbed resume ends with the ledger %q and %d files", c.last, len(c.end))
	}
	return c
}

// restore puts all files back as they were before the resume.
func (c *campaign) restore(t testing.TB) {
	t.Helper()
	c.site.quiet(t)
	for _, dir := range []string{c.site.ws(), c.site.store()} {
		// A supervisor that has just started holds no lock yet and may still create
		// files.
		eventually(t, "the site can be removed", func() bool { return os.RemoveAll(dir) == nil })
	}
	must(t, copyTree(c.base, c.site.root))
}

// verdict is the result of a trial.
type verdict struct {
	class string
	// finding is empty if the trial passed.
	finding string
}

// trial flips one bit, verifies, resumes and judges.
func (c *campaign) trial(t testing.TB, f *flip) verdict {
	t.Helper()
	c.restore(t)
	id := c.site.id(t)
	if f != nil {
		c.flip(t, *f)
	}
	named, wrong := c.judgeVerify(t, c.site.acode(t, "verify"), f)
	how, also := c.judgeResume(t, c.site.acode(t, "resume", id))
	if f != nil && how == halfWay {
		how, also = c.repaired(t, *f)
	}
	return verdict{class: named + "; " + how, finding: strings.TrimSpace(wrong + " " + also)}
}

func (c *campaign) flip(t testing.TB, f flip) {
	t.Helper()
	name := filepath.Join(c.site.store(), f.file)
	b, err := os.ReadFile(name)
	must(t, err)
	b[f.at] ^= 1 << f.bit
	must(t, os.WriteFile(name, b, 0o600))
}

// halfWay is the class of a resume that met the damage only when it wrote to the page. No
// read notices a header with a wrong free space.
const halfWay = "resume 18 half-way"

// repaired puts the bit back after such a resume and resumes again. The work of the first
// resume must be neither lost nor repeated.
func (c *campaign) repaired(t testing.TB, f flip) (class, finding string) {
	t.Helper()
	c.site.quiet(t)
	c.flip(t, f)
	class, finding = c.judgeResume(t, c.site.acode(t, "resume", c.site.id(t)))
	if class != "resume 0" && finding == "" {
		finding = "repaired after a resume that stopped half-way: " + class
	}
	return halfWay + ", repaired: " + class, finding
}

// judgeVerify checks A1.
func (c *campaign) judgeVerify(t testing.TB, e ended, f *flip) (class, finding string) {
	t.Helper()
	switch {
	case e.exit == 18, e.exit == 3 && e.code() != "":
		return fmt.Sprintf("verify %d", e.exit), ""
	case e.exit != 0:
		return fmt.Sprintf("verify %d", e.exit), fmt.Sprintf("undocumented refusal: %v", e)
	case f != nil && strings.HasPrefix(f.kind, "blobs/"):
		return "verify good", "a blob's file was changed and neither verify nor resume reports it"
	}
	if rows := dump(t, c.site.store()); rows != c.rows {
		return "verify good", "verify finds nothing, and rows differ: " + firstDifference(c.rows, rows)
	}
	return "verify good", ""
}

// judgeResume checks A2.
func (c *campaign) judgeResume(t testing.TB, e ended) (class, finding string) {
	t.Helper()
	class = fmt.Sprintf("resume %d", e.exit)
	files, ledger := tree(t, c.site.ws()), c.site.lines(t)
	switch e.exit {
	case 0:
		if d := differences(c.end, files); len(d) > 0 || !slices.Equal(ledger, c.last) {
			return class, fmt.Sprintf("resume ends otherwise: files %v, ledger %q: %v", d, ledger, e)
		}
	case 3, 16, 18:
		if d := differences(c.before, files); len(d) > 0 || !slices.Equal(ledger, c.ledger) {
			if e.exit == 18 && strings.HasPrefix(e.code(), "ACODE-JOURNAL") {
				class = halfWay
			}
			return class, fmt.Sprintf("resume refuses and has changed files %v, ledger %q: %v", d, ledger, e)
		}
		if e.code() == "" {
			return class, fmt.Sprintf("no code: %v", e)
		}
		class += " " + e.code()
	default:
		return class, fmt.Sprintf("undocumented end: %v", e)
	}
	return class, ""
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("%.300q became %.300q", x[i], y[i])
		}
	}
	return fmt.Sprintf("%d lines became %d", len(x), len(y))
}

// counts adds up verdicts by kind of file and class.
type counts struct {
	mu       sync.Mutex
	classes  map[string]map[string]int
	findings int
}

func (n *counts) add(t testing.TB, f flip, v verdict) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.classes == nil {
		n.classes = map[string]map[string]int{}
	}
	if n.classes[f.kind] == nil {
		n.classes[f.kind] = map[string]int{}
	}
	n.classes[f.kind][v.class]++
	if v.finding != "" {
		if n.findings++; n.findings <= 40 {
			t.Errorf("%v: %s", f, v.finding)
		}
	}
}

func (n *counts) print(t testing.TB, what string) {
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(n.classes)) {
		for _, class := range slices.Sorted(maps.Keys(n.classes[kind])) {
			t.Logf("%s: %-28s %-44s %6d", what, kind, class, n.classes[kind][class])
			total += n.classes[kind][class]
		}
	}
	t.Logf("%s: %d bytes flipped, %d findings", what, total, n.findings)
}

// A1, A2: verify names a flipped byte or the byte is harmless, and resume refuses or ends
// as usual.
func TestFlippedBytes(t *testing.T) {
	for name, database := range map[string]bool{"all_in_the_database": true, "all_in_the_log": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runFlips(t, name, database)
		})
	}
}

// tellEvery is the number of bytes after which a long campaign reports its progress.
const tellEvery = 10_000

func runFlips(t *testing.T, name string, database bool) {
	all, percent := os.Getenv("ACODE_TORTURE_FLIPS") == "all", 100
	if !all {
		percent = setting(t, "ACODE_TORTURE_FLIPS", 150) * 100 / 150
	}
	workers := setting(t, "ACODE_TORTURE_WORKERS", 1)
	if workers == 0 {
		workers = runtime.NumCPU()
	}
	var n counts
	t.Run("workers", func(t *testing.T) {
		for w := range workers {
			t.Run(fmt.Sprint(w), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(uint64(setting(t, "ACODE_TORTURE_SEED", 1)), uint64(w)))
				c := newCampaign(t, scratch(t), database)
				c.controls(t)
				list := flips(t, c.base, database, all, percent, rng)
				// The session of each worker has the same layout.
				for i := w; i < len(list); i += workers {
					if i%tellEvery < workers {
						t.Logf("%s: %d of %d", name, i, len(list))
					}
					n.add(t, list[i], c.trial(t, &list[i]))
				}
			})
		}
	})
	n.print(t, name)
	named := 0
	for _, classes := range n.classes {
		for class, k := range classes {
			if strings.HasPrefix(class, "verify 18") {
				named += k
			}
		}
	}
	if named == 0 {
		t.Error("no flip was ever named")
	}
}

// controls shows that the judge passes intact files and fails a program that does
// nothing.
func (c *campaign) controls(t *testing.T) {
	t.Helper()
	if v := c.trial(t, nil); v.finding != "" || v.class != "verify good; resume 0" {
		t.Fatalf("nothing flipped: %+v", v)
	}
	idle := *c
	idle.site.program = "/bin/true"
	blobs, err := fs.Glob(os.DirFS(c.site.store()), "blobs/*")
	must(t, err)
	named, wrong := idle.judgeVerify(t, idle.site.acode(t, "verify"), &flip{kind: "blobs/", file: blobs[0]})
	if wrong == "" {
		t.Fatalf("/bin/true verifies: %s", named)
	}
	if v := idle.trial(t, nil); v.finding == "" {
		t.Fatalf("/bin/true resumes: %+v", v)
	}
}
