package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

const (
	passRuns     = 40
	passSessions = 100_000
	passChanged  = 10
	passOfFew    = 1.5
)

// passes compares a pass over a store of many sessions, of which a few changed, with a
// pass over a store of only those few.
func (b *bench) passes(ctx context.Context, d *delivery) error {
	return d.with(ctx, func(one *server) error {
		return d.with(ctx, func(two *server) (err error) {
			few, err := b.populate(ctx, one, 0)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, few.close()) }()
			many, err := b.populate(ctx, two, passSessions)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, many.close()) }()
			return b.passesOf(ctx, few, many)
		})
	})
}

func (b *bench) passesOf(ctx context.Context, few, many *population) error {
	var short, long sample
	stop := []func(){few.run(ctx), many.run(ctx)}
	var err error
	for i := 0; i < passRuns && err == nil; i++ {
		err = errors.Join(few.pass(ctx, &short), many.pass(ctx, &long))
	}
	for _, f := range stop {
		f()
	}
	if err != nil {
		return err
	}
	b.report.ratio(fmt.Sprintf("a pass, %d sessions unchanged and %d changed / %d sessions", passSessions, passChanged, passChanged), long, short, passOfFew)
	short, long = nil, nil
	for range passRuns {
		if err := errors.Join(few.drain(ctx, &short), many.drain(ctx, &long)); err != nil {
			return err
		}
	}
	b.report.ratio("… with a greeting first, as sync now does", long, short, passOfFew)
	return nil
}

// population is a store of many delivered sessions and a connection to its server.
type population struct {
	*backlog
	link    *link
	changed []*local.Writer
	acked   map[session.ID]uint64
}

func (p *population) close() error {
	var errs []error
	for _, w := range p.changed {
		errs = append(errs, w.Close())
	}
	if p.link != nil {
		errs = append(errs, p.link.server.Close())
	}
	return errors.Join(append(errs, p.backlog.close())...)
}

// change appends an event to some sessions.
func (p *population) change(ctx context.Context) error {
	for _, w := range p.changed {
		if _, err := w.Append(ctx, session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{Why: "bench"}}); err != nil {
			return err
		}
	}
	return nil
}

// left returns an error if an event was not delivered.
func (p *population) left(ctx context.Context) error {
	left, err := p.out.Backlog(ctx)
	if err == nil && left.Events > 0 {
		err = fmt.Errorf("%d events are left", left.Events)
	}
	return err
}

// run lets the syncer run until stop.
func (p *population) run(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Run ends with its context.
		_ = p.link.syncer.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// pass delivers the changes with a running syncer. It measures from the wake-up until the
// last mark is kept.
func (p *population) pass(ctx context.Context, took *sample) error {
	if err := p.change(ctx); err != nil {
		return err
	}
	if err := took.timed(func() error { return p.woken(ctx) }); err != nil {
		return err
	}
	return p.left(ctx)
}

// woken wakes the syncer and waits for the marks of the changed sessions.
func (p *population) woken(ctx context.Context) error {
	p.link.syncer.Wake()
	for _, w := range p.changed {
		want := w.Session()
		for p.acked[want.ID] < want.LastSeq {
			select {
			case l := <-p.kept:
				p.acked[l.Session] = max(p.acked[l.Session], l.Acked)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// drain delivers the changes by a drain.
func (p *population) drain(ctx context.Context, took *sample) error {
	if err := p.change(ctx); err != nil {
		return err
	}
	if err := took.timed(func() error { return p.link.syncer.Drain(ctx) }); err != nil {
		return err
	}
	return p.left(ctx)
}

// populate makes a store of a few sessions that are delivered to s, and of others. For
// the others both sides record a delivery long ago, and the server has pruned them since.
func (b *bench) populate(ctx context.Context, s *server, others int) (*population, error) {
	dir, err := b.place(fmt.Sprintf("pass-%d", others))
	if err != nil {
		return nil, err
	}
	home := filepath.Join(dir, "home")
	k, err := newBacklog(ctx, home, passChanged, 0)
	if err != nil {
		return nil, err
	}
	var unused sample
	if err := errors.Join(k.drain(ctx, s, s.role, &unused), k.close()); err != nil {
		return nil, err
	}
	if err := multiply(ctx, home, s, others); err != nil {
		return nil, fmt.Errorf("multiply sessions: %w", err)
	}
	return openPopulation(ctx, home, s, k.sessions)
}

// The other sessions are copies of the first one with another name.
const (
	otherID = `'01990000-0000-7000-8000-' || printf('%%012x', i)`

	multiplyStore = `BEGIN;
CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %[1]d) SELECT i FROM n;
INSERT INTO sessions (no, id, short, %[2]s) SELECT 1000 + i, ` + otherID + `, printf('%%06d', i), %[2]s FROM sessions, n WHERE no = 1;
INSERT INTO lanes (session_no, %[3]s) SELECT 1000 + i, %[3]s FROM lanes, n WHERE session_no = 1;
COMMIT;`

	multiplyHeads = `INSERT INTO acode.heads SELECT (jsonb_populate_record(h, jsonb_build_object(
	'session_id', '01990000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'),
	'first_seq', h.last_seq + 1, 'first_prev', h.head::text,
	'verified_seq', h.last_seq, 'verified_head', h.head::text, 'projected_seq', h.last_seq))).*
FROM acode.heads h, generate_series(1, %d) i WHERE h.session_id = (SELECT min(session_id::text)::uuid FROM acode.heads)`

	countHeads = `UPDATE acode.counts SET events = (SELECT sum(last_seq) FROM acode.heads)
	- (SELECT coalesce(sum(events), 0) FROM acode.counts o WHERE o.shard <> acode.counts.shard) WHERE shard = (SELECT min(shard) FROM acode.counts)`
)

// multiply adds n sessions to a closed store and to its server.
func multiply(ctx context.Context, home string, s *server, n int) error {
	if n == 0 {
		return nil
	}
	db := filepath.Join(home, "acode.db")
	sessions, err := columns(ctx, db, "sessions", "no", "id", "short")
	if err != nil {
		return err
	}
	lanes, err := columns(ctx, db, "lanes", "session_no")
	if err != nil {
		return err
	}
	if _, err := sqlite(ctx, db, fmt.Sprintf(multiplyStore, n, sessions, lanes)); err != nil {
		return err
	}
	return execute(ctx, s.admin, fmt.Sprintf(multiplyHeads, n), countHeads, "ANALYZE acode.heads", "CHECKPOINT")
}

// columns lists the columns of a table except those in without.
func columns(ctx context.Context, db, table string, without ...string) (string, error) {
	return sqlite(ctx, db, fmt.Sprintf("SELECT group_concat(name) FROM pragma_table_info('%s') WHERE name NOT IN ('%s')", table, strings.Join(without, "', '")))
}

func sqlite(ctx context.Context, db, script string) (string, error) {
	cmd := exec.CommandContext(ctx, "sqlite3", "-bail", db)
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("sqlite3: %w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// openPopulation opens a store whose sessions are all delivered.
func openPopulation(ctx context.Context, home string, s *server, changed []session.ID) (*population, error) {
	st, err := openStore(ctx, home)
	if err != nil {
		return nil, err
	}
	p := &population{backlog: &backlog{st: st, kept: make(chan session.Lane, 1000)}, acked: map[session.ID]uint64{}}
	if p.out, err = st.Outbox(ctx); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	if p.link, err = p.connect(ctx, s.role); err != nil {
		return nil, errors.Join(err, p.close())
	}
	for _, id := range changed {
		w, err := st.Load(ctx, id)
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.changed = append(p.changed, w)
	}
	// The first drain reads the state that later drains already know.
	if err := errors.Join(p.link.syncer.Drain(ctx), p.link.syncer.Settle(ctx)); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}
