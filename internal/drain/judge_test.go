package main_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/acode-dev/acode/internal/pgtest"
)

// event is a row of a journal or of the server as text. All columns except numbers are in
// hex.
type event struct {
	session                              string
	seq, timeUS, epoch                   string
	id, kind, actor, payload, hash, rest string
}

func parseEvent(line string) event {
	f := strings.Split(line, "|")
	if len(f) != 9 {
		return event{rest: line}
	}
	return event{session: f[0], seq: f[1], timeUS: f[2], id: f[3], kind: f[4], actor: f[5], epoch: f[6], payload: f[7], hash: f[8]}
}

// chained computes the event's hash after prev, following docs/format.md.
func (e event) chained(prev []byte) (string, error) {
	var errs []error
	h := sha256.New()
	raw := func(s string) []byte {
		b, err := hex.DecodeString(s)
		errs = append(errs, err)
		return b
	}
	number := func(s string) {
		n, err := strconv.ParseInt(s, 10, 64)
		errs = append(errs, err)
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	text := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b))))
		h.Write(b)
	}
	h.Write([]byte("acode-event-v1\x00"))
	h.Write(prev)
	h.Write(raw(e.id))
	text([]byte(e.session))
	number(e.seq)
	number(e.timeUS)
	number(e.epoch)
	text(raw(e.kind))
	text(raw(e.actor))
	text(raw(e.payload))
	return hex.EncodeToString(h.Sum(nil)), errors.Join(errs...)
}

// lane is the progress of a session's delivery, according to the store.
type lane struct {
	session          string
	last, acked      int
	state            string
	parked, attempts int
	head             string
	reason           string
}

// journal is the content of a store, as sqlite3 reads it.
type journal struct {
	events []event
	lanes  map[string]lane
	// blobs holds "send" or "keep" by hash; other blobs may be sent.
	blobs map[string]string
}

const storeSQL = `SELECT session, seq, time_us, id, lower(hex(type)), lower(hex(actor)), epoch, lower(hex(CAST(payload AS BLOB))), hash FROM journal ORDER BY session, seq;
SELECT '---';
SELECT s.id, s.last_seq, coalesce(l.acked, 0), coalesce(l.state, ''), coalesce(l.parked, 0), coalesce(l.attempts, 0), lower(hex(s.head)), coalesce(l.reason, '')
FROM sessions s LEFT JOIN lanes l ON l.session_no = s.no ORDER BY s.id;
SELECT '---';
SELECT lower(hex(b.hash)), CASE WHEN codec = 'sealed' THEN 'keep' WHEN EXISTS (SELECT 1 FROM events e WHERE instr(e.payload, lower(hex(b.hash)))) THEN 'send' ELSE '' END FROM blobs b;`

// readStore reads a copy of a closed store.
func readStore(t testing.TB, home string) journal {
	t.Helper()
	out := closed(t, home, storeSQL)
	if out == "" {
		return journal{}
	}
	j := parseStore(t, out)
	files, err := filepath.Glob(filepath.Join(home, "blobs", "*.zst"))
	must(t, err)
	for _, f := range files {
		j.file(strings.TrimSuffix(filepath.Base(f), ".zst"))
	}
	return j
}

// file decides about an unsealed blob in a file. A blob that an event names is sent,
// unless it is a whole output.
func (j journal) file(hash string) {
	named := func(field string) bool {
		return slices.ContainsFunc(j.events, func(e event) bool {
			return strings.Contains(e.payload, hex.EncodeToString([]byte(`"`+field+`":{"hash":"`+hash)))
		})
	}
	switch {
	case named("blob"):
		j.blobs[hash] = "send"
	case named("whole"):
		j.blobs[hash] = "keep"
	default:
		j.blobs[hash] = ""
	}
}

// closed queries a copy of a closed store; without a store it returns "".
func closed(t testing.TB, home, sql string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "copy-")
	must(t, err)
	defer os.RemoveAll(dir)
	for _, name := range []string{"acode.db", "acode.db-wal"} {
		b, err := os.ReadFile(filepath.Join(home, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	if _, err := os.Stat(filepath.Join(dir, "acode.db")); err != nil {
		return ""
	}
	return sqlite(t, filepath.Join(dir, "acode.db"), sql)
}

// sqlite runs the sqlite3 program.
func sqlite(t testing.TB, db, sql string) string {
	t.Helper()
	cmd := exec.Command("sqlite3", "-batch", "-bail", "-noheader", "-cmd", ".timeout 10000", db)
	cmd.Stdin = strings.NewReader(sql)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sqlite3: %v: %s", err, stderr.String())
	}
	return string(out)
}

// live queries an open store in its own process, which only reads.
func (s *store) live(sql string) string {
	s.t.Helper()
	return strings.TrimSpace(sqlite(s.t, "file:"+filepath.Join(s.home, "acode.db")+"?mode=ro", sql))
}

func parseStore(t testing.TB, out string) journal {
	t.Helper()
	parts := strings.Split(out, "---\n")
	if len(parts) != 3 {
		t.Fatalf("sqlite3: got %d parts, want 3: %s", len(parts), out)
	}
	j := journal{lanes: map[string]lane{}, blobs: map[string]string{}}
	for line := range strings.Lines(parts[0]) {
		j.events = append(j.events, parseEvent(strings.TrimSpace(line)))
	}
	for line := range strings.Lines(parts[1]) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "|", 8)
		if len(f) != 8 {
			t.Fatalf("sqlite3: lane %q", line)
		}
		j.lanes[f[0]] = lane{f[0], atoi(t, f[1]), atoi(t, f[2]), f[3], atoi(t, f[4]), atoi(t, f[5]), f[6], f[7]}
	}
	for line := range strings.Lines(parts[2]) {
		hash, fate, _ := strings.Cut(strings.TrimSpace(line), "|")
		j.blobs[hash] = fate
	}
	return j
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	must(t, err)
	return n
}

// held is the content of a server, as psql reads it.
type held struct {
	events []event
	// heads holds the last seq and the hash.
	heads map[string][2]string
	// blobs holds the error of each blob, or "".
	blobs  map[string]string
	strays []string
}

// serverSQL counts strays in tables that only the server's own functions fill.
const serverSQL = `SELECT session_id, seq, time_us, replace(id::text, '-', ''), encode(convert_to(type, 'UTF8'), 'hex'), encode(convert_to(actor, 'UTF8'), 'hex'),
	epoch, encode(payload, 'hex'), encode(hash, 'hex') FROM acode.events ORDER BY session_id::text COLLATE "C", seq;
\echo ---
SELECT session_id, last_seq, encode(head, 'hex') FROM acode.heads ORDER BY session_id;
\echo ---
SELECT 'fork of ' || session_id || ' seq ' || seq || ' ' || reason FROM acode.forks ORDER BY fork;
SELECT 'chunk of half a blob ' || encode(c.hash, 'hex') FROM acode.blob_chunks c LEFT JOIN acode.blobs b USING (owner, hash) WHERE b.hash IS NULL;
\echo ---
SELECT encode(b.hash, 'hex'), b.bytes, b.chunks, count(c.n), encode(string_agg(c.data, ''::bytea ORDER BY c.n), 'hex')
FROM acode.blobs b LEFT JOIN acode.blob_chunks c USING (owner, hash) GROUP BY b.owner, b.hash;
`

// readServer reads the content of a server.
func readServer(t testing.TB, admin string) held {
	t.Helper()
	parts := strings.Split(pgtest.Psql(t, admin, serverSQL)+"\n", "---\n")
	if len(parts) != 4 {
		t.Fatalf("psql: got %d parts, want 4", len(parts))
	}
	h := held{heads: map[string][2]string{}, blobs: map[string]string{}}
	for line := range strings.Lines(parts[0]) {
		h.events = append(h.events, parseEvent(strings.TrimSpace(line)))
	}
	for line := range strings.Lines(parts[1]) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) == 3 {
			h.heads[f[0]] = [2]string{f[1], f[2]}
		}
	}
	for line := range strings.Lines(parts[2]) {
		if line = strings.TrimSpace(line); line != "" {
			h.strays = append(h.strays, line)
		}
	}
	for line := range strings.Lines(parts[3]) {
		if f := strings.Split(strings.TrimSpace(line), "|"); len(f) == 5 {
			h.blobs[f[0]] = whole(f)
		}
	}
	return h
}

// whole checks a blob and returns its error, or "". The fields are hash, bytes, chunks,
// their number, and content.
func whole(f []string) string {
	raw, err := hex.DecodeString(f[4])
	if err != nil {
		return err.Error()
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err.Error()
	}
	defer z.Close()
	content, err := z.DecodeAll(raw, nil)
	switch sum := sha256.Sum256(content); {
	case err != nil:
		return err.Error()
	case f[2] != f[3]:
		return fmt.Sprintf("%s chunks of %s", f[3], f[2])
	case f[1] != strconv.Itoa(len(content)) || f[0] != hex.EncodeToString(sum[:]):
		return fmt.Sprintf("%d bytes of %s, with another hash", len(content), f[1])
	}
	return ""
}

// breaches collects errors.
type breaches []string

func (b *breaches) add(format string, args ...any) { *b = append(*b, fmt.Sprintf(format, args...)) }

// judge compares a closed store with its server at the end of a trial (N1 to N4).
func judge(t testing.TB, home, admin string) breaches {
	t.Helper()
	return compare(t, readStore(t, home), readServer(t, admin))
}

func compare(t testing.TB, j journal, h held) (b breaches) {
	t.Helper()
	if len(j.events) == 0 {
		b.add("the journal is empty: nothing was tried")
	}
	b = append(b, chains(t, "journal", j.events)...)
	b = append(b, chains(t, "server", h.events)...)
	there := map[[2]string][]event{}
	for _, e := range h.events {
		k := [2]string{e.session, e.seq}
		there[k] = append(there[k], e)
	}
	for _, e := range j.events {
		k := [2]string{e.session, e.seq}
		switch got := there[k]; {
		case len(got) == 0:
			b.add("lost: event %s of %s", e.seq, e.session)
		case len(got) > 1:
			b.add("repeated: event %s of %s is there %d times", e.seq, e.session, len(got))
		case got[0] != e:
			b.add("differs: event %s of %s", e.seq, e.session)
		}
		delete(there, k)
	}
	for k := range there {
		b.add("stray: event %s of %s", k[1], k[0])
	}
	b = append(b, contents(j, h)...)
	return append(b, marks(j, h)...)
}

// contents compares the blobs that events name with those of the server.
func contents(j journal, h held) (b breaches) {
	for hash, fate := range j.blobs {
		if _, ok := h.blobs[hash]; !ok && fate == "send" {
			b.add("lost: blob %s", hash)
		}
	}
	for hash, wrong := range h.blobs {
		switch fate, ok := j.blobs[hash]; {
		case !ok:
			b.add("stray: blob %s", hash)
		case fate == "keep":
			b.add("leaked: blob %s stays at home", hash)
		case wrong != "":
			b.add("half a blob: %s: %s", hash, wrong)
		}
	}
	return b
}

// marks compares the progress that store and server record.
func marks(j journal, h held) (b breaches) {
	for id, l := range j.lanes {
		head := h.heads[id]
		if l.acked != l.last || l.parked != 0 || l.attempts != 0 {
			b.add("lane of %s: acked %d of %d, parked %d, attempts %d, state %q: %s", id, l.acked, l.last, l.parked, l.attempts, l.state, l.reason)
		}
		if head[0] != strconv.Itoa(l.last) || head[1] != l.head {
			b.add("head of %s: got %s %s, want %d %s", id, head[0], head[1], l.last, l.head)
		}
	}
	for id := range h.heads {
		if _, ok := j.lanes[id]; !ok {
			b.add("stray: head of %s", id)
		}
	}
	for _, s := range h.strays {
		b.add("stray: %s", s)
	}
	return b
}

// chains recomputes the hashes of events, which are ordered by session and seq.
func chains(t testing.TB, where string, events []event) (b breaches) {
	t.Helper()
	last, seq := "", 0
	prev := make([]byte, 32)
	for _, e := range events {
		if e.rest != "" {
			b.add("%s: unreadable row %q", where, e.rest)
			continue
		}
		if e.session != last {
			last, seq, prev = e.session, 0, make([]byte, 32)
		}
		got, err := e.chained(prev)
		if n := atoi(t, e.seq); n != seq+1 || err != nil || got != e.hash {
			b.add("%s: event %s of %s does not follow event %d: %v", where, e.seq, e.session, seq, err)
		}
		seq, prev = atoi(t, e.seq), mustHex(t, e.hash)
	}
	return b
}

func mustHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}

// oursSQL and theirsSQL read the progress of each session in the store and on the server.
const (
	oursSQL   = `SELECT s.id, coalesce(l.acked, 0), coalesce(l.attempts, 0), coalesce(l.parked, 0) FROM sessions s LEFT JOIN lanes l ON l.session_no = s.no`
	theirsSQL = `SELECT coalesce(h.session_id, e.session_id), coalesce(h.last_seq, 0), count(e.seq), coalesce(max(e.seq), 0) FROM acode.heads h
		FULL JOIN acode.events e ON e.session_id = h.session_id`
)

// midway checks an open store and its server in the middle of a trial (N3, N5). The store
// must not record more than the server has, and an outage must not count as an attempt.
// The server has a mark and the events below it, or neither. id selects one session;
// empty means all.
func (s *store) midway(admin, id string) (b breaches, delivered int) {
	s.t.Helper()
	ours, theirs := oursSQL, theirsSQL
	if id != "" {
		ours += ` WHERE s.id = '` + id + `'`
		theirs += ` WHERE coalesce(h.session_id, e.session_id) = '` + id + `'`
	}
	// This query comes before the server's, because the server's mark only rises.
	early := s.live(ours)
	return ahead(s.t, early, pgtest.Psql(s.t, admin, theirs+` GROUP BY 1, 2`))
}

func ahead(t testing.TB, ours, theirs string) (b breaches, delivered int) {
	t.Helper()
	marks := map[string]int{}
	for line := range strings.Lines(theirs) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 4 || f[1] != f[2] || f[1] != f[3] {
			b.add("half a delivery: the server's mark of %s is %s, and it has %s events up to %s", f[0], f[1], f[2], f[3])
			continue
		}
		marks[f[0]] = atoi(t, f[1])
		delivered += marks[f[0]]
	}
	for line := range strings.Lines(ours) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if atoi(t, f[1]) > marks[f[0]] {
			b.add("early: acknowledged event %s of %s, and the server has %d", f[1], f[0], marks[f[0]])
		}
		if f[2] != "0" || f[3] != "0" {
			b.add("attempts: an outage counted %s of %s and parked %s", f[2], f[0], f[3])
		}
	}
	return b, delivered
}

// report fails the test with breaches and prints a few of them.
func report(t testing.TB, what string, b breaches) {
	t.Helper()
	if len(b) == 0 {
		return
	}
	slices.Sort(b)
	t.Errorf("%s: %d breaches: %s", what, len(b), strings.Join(b[:min(len(b), 4)], "; "))
}

// age returns how long the oldest event without acknowledgement has waited, by the
// current clock.
func (s *store) age() (waits time.Duration, pending int) {
	s.t.Helper()
	out := s.live(`SELECT count(*), coalesce(min(e.time_us), 0) FROM sessions s LEFT JOIN lanes l ON l.session_no = s.no
		JOIN events e ON e.pos > s.no * 1099511627776 + coalesce(l.acked, 0) AND e.pos <= s.no * 1099511627776 + 1099511627775`)
	n, us, _ := strings.Cut(out, "|")
	if n == "0" {
		return 0, 0
	}
	return time.Since(time.UnixMicro(int64(atoi(s.t, us)))), atoi(s.t, n)
}
