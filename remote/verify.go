package remote

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/acode-dev/acode/session"
)

// Verify lets the server recompute the chain hashes of at most limit new events and move
// the verified marks. It reports whether there are more. A wrong chain keeps its verified
// mark, and VerifyAll names it.
func (s *Server) Verify(ctx context.Context, limit int) (more bool, err error) {
	return s.runPiece(ctx, `SELECT acode.verify_chains($1)`, limit)
}

// Project lets the server fill its typed tables with at most limit new events of this
// role, and reports whether there are more. The server flags content that PostgreSQL
// cannot hold, and continues.
func (s *Server) Project(ctx context.Context, limit int) (more bool, err error) {
	return s.runPiece(ctx, `SELECT acode.project($1)`, limit)
}

// runPiece runs a function that does a piece of a chore and reports whether there is
// more.
func (s *Server) runPiece(ctx context.Context, sql string, limit int) (more bool, err error) {
	err = s.one(ctx, call{sql, []any{int32(limit)}}, &more)
	return more, err
}

// Difference is an error in the server's data.
type Difference struct {
	// Session is empty if the data belongs to no session.
	Session session.ID
	// Seq is the first wrong place; 0 means all of it.
	Seq uint64
	// What is "missing", "duplicate", "changed", "head", "stray", "orphan", "count",
	// "fork" or "blob".
	What string
	// Detail describes the difference.
	Detail string
}

// Checked is the result of VerifyAll.
type Checked struct {
	Sessions int
	Events   int64
	// Withheld counts the events whose content a client kept back; their hashes cannot be
	// recomputed.
	Withheld    int64
	Forks       int64
	Blobs       int64
	Differences []Difference
}

// verifyPage is the number of sessions that one query checks.
const verifyPage = 200

// VerifyAll recomputes every chain, every fork and every blob on the server. A difference
// is no error. Deliveries continue meanwhile: each page is one snapshot. VerifyAll also
// moves verified marks and fills typed tables, as each machine does for its own sessions.
func VerifyAll(ctx context.Context, o Options) (Checked, error) {
	a, err := connect(ctx, o)
	if err != nil {
		return Checked{}, err
	}
	defer a.close()
	var c Checked
	for _, step := range []func(context.Context, *Checked) error{a.verifySessions, a.verifyRest} {
		if err := step(ctx, &c); err != nil {
			return c, a.failed("verify the server", err)
		}
	}
	return c, a.failed("verify the server", a.projectAll(ctx))
}

func (a *admin) verifySessions(ctx context.Context, c *Checked) error {
	const page = `SELECT h.session_id::text, s.n, coalesce(s.bad, 0), coalesce(s.wrong, ''), h.last_seq, encode(h.head, 'hex'),
    s.wrong IS NULL AND (h.verified_seq < h.last_seq OR h.broken_seq IS NOT NULL)
FROM (SELECT * FROM acode.heads WHERE session_id > $1::uuid ORDER BY session_id LIMIT $2) h,
    LATERAL acode.check_session((h.*)::acode.heads) s ORDER BY h.session_id`
	after := "00000000-0000-0000-0000-000000000000"
	for {
		n := 0
		// marks of whole chains that their machines did not verify
		moved := &pgx.Batch{}
		var found, bad, last int64
		var wrong, head string
		var owed bool
		err := a.each(ctx, page, []any{after, verifyPage}, []any{&after, &found, &bad, &wrong, &last, &head, &owed}, func() error {
			n++
			c.Events += found
			if wrong != "" {
				c.Differences = append(c.Differences, Difference{Session: session.ID(after), Seq: uint64(bad), What: wrong, Detail: explain[wrong]})
			}
			if owed {
				moved.Queue(`UPDATE acode.heads SET verified_seq = greatest(verified_seq, $2), broken_seq = NULL,
    verified_head = CASE WHEN verified_seq > $2 THEN verified_head ELSE decode($3, 'hex') END WHERE session_id = $1::uuid AND last_seq >= $2`, after, last, head)
			}
			return nil
		})
		if err == nil && moved.Len() > 0 {
			err = a.conn.SendBatch(ctx, moved).Close()
		}
		if err != nil {
			return err
		}
		c.Sessions += n
		if n < verifyPage {
			return nil
		}
	}
}

// projectAll fills the typed tables with events that their machines left unprojected;
// some of these machines may never come back.
func (a *admin) projectAll(ctx context.Context) error {
	_, err := a.conn.Exec(ctx, `DO $$
DECLARE
    id uuid;
BEGIN
    FOR id IN SELECT o.session_id FROM acode.heads o WHERE o.projected_seq < o.last_seq ORDER BY o.session_id LOOP
        WHILE acode.project_session(id, 1000) LOOP
            COMMIT;
        END LOOP;
        COMMIT;
    END LOOP;
END $$`)
	return err
}

// explain describes each kind of difference.
var explain = map[string]string{
	"missing":   "an event below the mark is not there",
	"duplicate": "two events have the same place",
	"changed":   "the content does not give the hash",
	"head":      "the head does not have the hash of the last event",
	"stray":     "an event lies outside of the range in the head",
}

// verifyRest checks data outside of chains. It finds events of a session without head,
// forks whose content does not match their hash, and blobs that are not whole. It also
// finds stores whose count of events differs from their heads.
func (a *admin) verifyRest(ctx context.Context, c *Checked) error {
	const totals = `SELECT (SELECT count(*) FROM acode.events WHERE substr(payload, 1, 12) = '{"withheld":'::bytea),
    (SELECT count(*) FROM acode.forks), (SELECT count(*) FROM acode.blobs)`
	if err := a.conn.QueryRow(ctx, totals).Scan(&c.Withheld, &c.Forks, &c.Blobs); err != nil {
		return err
	}
	for _, sql := range []string{`SELECT session_id::text, min(seq), 'orphan', format('%s events of a session without head', count(*)) FROM acode.events e
WHERE NOT EXISTS (SELECT 1 FROM acode.heads h WHERE h.session_id = e.session_id) GROUP BY session_id ORDER BY session_id`,

		`SELECT '', 0::bigint, 'count', format('store %s of %s has %s events and is counted with %s', coalesce(h.device, n.device),
    coalesce(h.owner, n.owner), coalesce(h.events, 0), coalesce(n.events, 0))
FROM (SELECT owner, device, sum(last_seq)::bigint AS events FROM acode.heads GROUP BY owner, device) h
FULL JOIN (SELECT owner, device, sum(events)::bigint AS events FROM acode.counts GROUP BY owner, device) n ON n.owner = h.owner AND n.device = h.device
WHERE coalesce(h.events, 0) <> coalesce(n.events, 0) ORDER BY coalesce(h.owner, n.owner), coalesce(h.device, n.device)`,

		`SELECT session_id::text, seq, 'fork', 'the content of an event that was filed does not give its hash' FROM acode.forks
WHERE hash IS DISTINCT FROM acode.chain_hash(prev, id, session_id, seq, time_us, epoch, type, actor, payload) AND substr(payload, 1, 12) <> '{"withheld":'::bytea
ORDER BY fork`,

		`SELECT '', 0::bigint, 'blob', format('blob %s of %s is not whole', encode(b.hash, 'hex'), b.owner)
FROM acode.blobs b, LATERAL (SELECT count(*) AS n, coalesce(sum(octet_length(k.data)), 0) AS stored, coalesce(bool_and(sha256(k.data) = k.sum), false) AS right_sums
    FROM acode.blob_chunks k WHERE k.owner = b.owner AND k.hash = b.hash) x
WHERE NOT (b.chunks = x.n AND b.stored = x.stored AND x.right_sums) ORDER BY b.owner, b.hash`} {
		var d Difference
		if err := a.each(ctx, sql, nil, []any{&d.Session, &d.Seq, &d.What, &d.Detail}, func() error {
			c.Differences = append(c.Differences, d)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// each reads every row into the variables, then calls see.
func (a *admin) each(ctx context.Context, sql string, args, into []any, see func() error) error {
	rows, err := a.conn.Query(ctx, sql, args...)
	if err == nil {
		_, err = pgx.ForEachRow(rows, into, see)
	}
	return err
}
