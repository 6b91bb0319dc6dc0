package local

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
	"modernc.org/sqlite"
)

// VerifyReport is the result of Verify.
type VerifyReport struct {
	Sessions    int
	Events      int
	Checkpoints int
	Blobs       int
	Problems    []Problem
	// Unnamed are blobs that no event names. They are no problem.
	Unnamed []string
}

// Problem is one difference from the state that acode wrote.
type Problem struct {
	// Session is empty for a problem of the store.
	Session session.ID
	Code    session.Code
	// Place is a row, a seq or a file.
	Place   string
	Message string
	// Trusted is the last seq of the session that is trusted.
	Trusted uint64
}

// NewProblem returns err as a problem of session id. Its place is place if err names
// none.
func NewProblem(id session.ID, err error, place string) Problem {
	p := Problem{Session: id, Code: session.CodeOf(err), Place: place, Message: err.Error()}
	if e, ok := err.(*session.Error); ok {
		p.Place = cmp.Or(e.Place, place)
		said := *e
		said.Place = ""
		p.Message = said.Error()
		var raw *sqlite.Error
		if errors.As(e.Cause, &raw) { // the rest of the message would only advise to run acode verify
			p.Message = "it cannot be read: " + raw.Error()
		}
	}
	return p
}

// String returns the problem in one line.
func (p Problem) String() string {
	who, trusted := "store", ""
	if p.Session != "" {
		who = "session " + string(p.Session)
	}
	if p.Trusted > 0 {
		trusted = ", " + trustedPlace(p.Trusted)
	}
	return fmt.Sprintf("%s: %s: %s (%s)%s", who, p.Place, p.Message, p.Code, trusted)
}

// Verify replays a session from its first event and compares the result with the store:
// projections field by field, the whole chain, every HMAC and every blob that an event
// names. It also checks the integrity of the database. An empty id means every session.
//
// The report lists the problems. An error means that Verify could not check.
func (s *Store) Verify(ctx context.Context, id session.ID) (VerifyReport, error) {
	v := &verifier{ctx: ctx, s: s, named: map[session.Hash]bool{}}
	k, err := s.theKeys(ctx)
	switch {
	case errors.Is(err, session.ErrTampered):
		v.add("", err, "table store", 0)
		k, err = s.source().find(ctx, s.row.keySource, s.row.keyID, s.row.device)
	case errors.Is(err, session.ErrCorrupt):
		v.add("", err, "table store", 0)
		return v.report, nil
	}
	if err != nil {
		return v.report, err
	}
	v.k = k
	err = s.read(ctx, func(q querier) error {
		v.q = q
		return v.run(id)
	})
	if ctx.Err() != nil { // later findings may be wrong
		return VerifyReport{}, context.Cause(ctx)
	}
	return v.report, v.damage(err, "database")
}

type verifier struct {
	ctx    context.Context
	s      *Store
	k      *keys
	q      querier
	report VerifyReport
	named  map[session.Hash]bool
	heads  map[session.ID]witness
}

// witness is the head of a session, or the error from reading it.
type witness struct {
	commit *session.Commit
	err    error
}

// readHeads reads the heads before the snapshot begins with the first statement.
// Otherwise a commit in between could make a head newer than the rows that are compared
// with it.
func (v *verifier) readHeads(id session.ID) error {
	ids := []session.ID{id}
	if id == "" {
		var err error
		if ids, err = headNames(v.s.opts.Home); err != nil {
			return err
		}
	}
	v.heads = make(map[session.ID]witness, len(ids))
	for _, one := range ids {
		c, err := readHead(v.s.opts.Home, v.k, one)
		v.heads[one] = witness{c, err}
	}
	return nil
}

func (v *verifier) problem(p Problem) { v.report.Problems = append(v.report.Problems, p) }

func (v *verifier) add(id session.ID, err error, place string, trusted uint64) {
	p := NewProblem(id, err, place)
	p.Trusted = trusted
	v.problem(p)
}

// damage reports an ErrCorrupt as a problem and returns nil, so that the other checks
// still run. It returns any other error.
func (v *verifier) damage(err error, place string) error {
	if !errors.Is(err, session.ErrCorrupt) {
		return err
	}
	v.add("", err, place, 0)
	return nil
}

func (v *verifier) run(id session.ID) error {
	if err := v.readHeads(id); err != nil {
		return err
	}
	if err := v.database(); err != nil {
		return err
	}
	ids := []session.ID{id}
	if id == "" {
		var err error
		if ids, err = v.sessions(); err != nil {
			return err
		}
	}
	for _, one := range ids {
		err := v.session(one)
		if err != nil && !errors.Is(err, session.ErrCorrupt) && (id != "" || !errors.Is(err, session.ErrUnknownID)) {
			return err
		}
		if err != nil {
			v.add(one, err, "session", 0)
		}
	}
	if id == "" {
		return v.damage(v.strays(), "rows of no session")
	}
	return nil
}

// database checks the file itself and its schema.
func (v *verifier) database() error {
	for _, check := range []struct {
		place string
		look  func() error
	}{{"database", v.integrity}, {"references", v.references}, {"schema", v.schema}} {
		if err := v.damage(check.look(), check.place); err != nil {
			return err
		}
	}
	return nil
}

// integrity runs SQLite's check of the file.
func (v *verifier) integrity() error {
	lines, err := queryStrings(v.ctx, v.q, `PRAGMA integrity_check`)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if line != "ok" {
			v.problem(Problem{Code: session.ErrCorrupt, Place: "database", Message: line})
		}
	}
	return nil
}

// references finds rows whose session does not exist.
func (v *verifier) references() error {
	foreign, err := queryStrings(v.ctx, v.q, `SELECT "table" || ' row ' || coalesce(rowid, '') FROM pragma_foreign_key_check`)
	if err != nil {
		return err
	}
	for _, line := range foreign {
		v.problem(Problem{Code: session.ErrCorrupt, Place: line, Message: "the row belongs to no session"})
	}
	return nil
}

// schema compares the schema of the store with that of a new database in memory of the
// same version.
func (v *verifier) schema() error {
	version, err := v.s.version(v.ctx, v.q)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return storeError("make schema", err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := v.s.schema().run(v.ctx, db, version); err != nil {
		return storeError("make schema", err)
	}
	conn, err := db.Conn(v.ctx)
	if err != nil {
		return storeError("make schema", err)
	}
	defer conn.Close()
	rows := func(query string) func(context.Context, querier) ([]string, error) {
		return func(ctx context.Context, q querier) ([]string, error) { return queryStrings(ctx, q, query) }
	}
	for place, read := range map[string]func(context.Context, querier) ([]string, error){
		"schema":                 schemaRows,
		"table goose_db_version": rows(`SELECT id || ' ' || version_id || ' ' || is_applied FROM goose_db_version ORDER BY id`),
		"table sqlite_sequence":  rows(`SELECT name || ' ' || seq FROM sqlite_sequence ORDER BY name`),
	} {
		have, err := read(v.ctx, v.q)
		if err != nil {
			return err
		}
		var want []string
		err = conn.Raw(func(c any) (err error) {
			l := newHandle(c.(driver.Conn))
			want, err = read(v.ctx, l)
			return errors.Join(err, l.forget())
		})
		if err != nil {
			return err
		}
		if strings.Join(have, "\n") != strings.Join(want, "\n") {
			v.problem(Problem{Code: session.ErrCorrupt, Place: place, Message: "it is not as acode made it: " + departures(have, want)})
		}
	}
	return nil
}

// departures names the rows that are only in have, and those that are missing. The first
// two words of a row are its name.
func departures(have, want []string) string {
	name := func(row string) string {
		words := strings.SplitN(row, " ", 3)
		return strings.Join(words[:min(2, len(words))], " ")
	}
	var other []string
	for _, row := range have {
		if !slices.Contains(want, row) {
			other = append(other, name(row))
		}
	}
	for _, row := range want {
		if !slices.Contains(have, row) && !slices.Contains(other, name(row)) {
			other = append(other, name(row)+" is missing")
		}
	}
	return session.Few(other, someNames)
}

func queryStrings(ctx context.Context, q querier, query string) (out []string, err error) {
	err = readRows(ctx, q, "verify", "", query, nil, func(r row) error {
		out = append(out, fmt.Sprint(r.values[0]))
		return nil
	})
	return out, err
}

// sessions lists every session that has a row or a head.
func (v *verifier) sessions() ([]session.ID, error) {
	known, err := queryStrings(v.ctx, v.q, `SELECT id FROM sessions ORDER BY no`)
	if err := v.damage(err, "table sessions"); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var ids []session.ID
	for _, id := range known {
		if _, err := session.ParseUUID(id); err != nil {
			v.problem(Problem{Code: session.ErrCorrupt, Place: "database", Message: errShifted.Error()})
			continue
		}
		seen[id] = true
		ids = append(ids, session.ID(id))
	}
	for _, id := range slices.Sorted(maps.Keys(v.heads)) {
		if !seen[string(id)] {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (v *verifier) session(id session.ID) error {
	v.report.Sessions++
	l := &loader{ctx: v.ctx, q: v.q, k: v.k, id: id, head: v.heads[id].commit}
	err := v.heads[id].err
	if err != nil {
		v.add(id, err, "head", 0)
	}
	if l.row, err = readSession(v.ctx, v.q, id); err != nil {
		if l.head != nil && errors.Is(err, session.ErrUnknownID) {
			v.add(id, l.lost(err), "head", 0)
			return nil
		}
		return err
	}
	if err := l.checkCommit(); err != nil {
		v.add(id, err, "commit", 0)
	}
	if l.head != nil {
		if err := l.checkHead(); err != nil {
			v.add(id, err, "commit", 0)
		}
	}
	l.sums = newDigests(v.k, id)
	if err := readProjections(v.ctx, v.q, l.row, l.sums); err != nil {
		v.add(id, err, "projections", 0)
	}
	r := &replayer{v: v, row: l.row, rows: l.sums, sess: &session.Session{}, sums: newDigests(v.k, id)}
	if err := r.run(); err != nil {
		return err
	}
	v.blob(id, l.row.sess.Plan.Hash, "plan")
	if _, err := readRequests(v.ctx, v.q, v.k, l.row.no, id); err != nil {
		v.add(id, err, "requests", 0)
	}
	return nil
}

// blob reads a blob to its end.
func (v *verifier) blob(id session.ID, hash, place string) {
	v.report.Blobs++
	if name, err := parseHash(hash); err == nil {
		v.named[name], v.named[v.k.blobName(name, true)] = true, true
	}
	b, err := v.s.openBlob(v.ctx, v.q, hash)
	if err == nil {
		_, err = io.Copy(io.Discard, b)
		_ = b.Close() // it was only read
	}
	if err != nil {
		v.add(id, err, place, 0)
	}
}

// strays finds rows that belong to no session, and blobs that no event names. It reads
// these blobs too.
func (v *verifier) strays() error {
	for table, stray := range map[string]string{
		"operations": `session_no NOT IN (SELECT no FROM sessions)`,
		"events":     `session NOT IN (SELECT no FROM sessions) OR seq NOT BETWEEN 1 AND (SELECT last_seq FROM sessions WHERE no = session)`,
		"steps":      `session_no NOT IN (SELECT no FROM sessions)`,
		"files":      `session_no NOT IN (SELECT no FROM sessions)`,
	} {
		row := "pos"
		if table == "operations" {
			row = "session_no"
		}
		lost, err := queryStrings(v.ctx, v.q, `SELECT `+row+` FROM `+table+` WHERE `+stray)
		if err != nil {
			return err
		}
		for _, pos := range lost {
			v.problem(Problem{Code: session.ErrTampered, Place: "table " + table + " row " + pos, Message: "the row belongs to no session, or is before its first or after its last event"})
		}
	}
	names, err := queryStrings(v.ctx, v.q, `SELECT lower(hex(hash)) FROM blobs`)
	if err != nil {
		return err
	}
	for _, suffix := range []string{sealedSuffix, plainSuffix} {
		files, err := filepath.Glob(filepath.Join(v.s.blobDir(), "*"+suffix))
		if err != nil {
			return storeError("list blobs", err)
		}
		for _, f := range files {
			names = append(names, strings.TrimSuffix(filepath.Base(f), suffix))
		}
	}
	slices.Sort(names)
	for _, name := range names {
		h, err := hex.DecodeString(name)
		if err == nil && v.named[hash32(h)] {
			continue
		}
		v.report.Unnamed = append(v.report.Unnamed, name)
		v.blob("", name, "blob "+name)
	}
	return nil
}
