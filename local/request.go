package local

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/acode-dev/acode/session"
)

// Ask saves a request for the process that holds the session. It adds no event.
func (s *Store) Ask(ctx context.Context, r session.Request) error {
	if s.opts.Redactor != nil {
		said := s.opts.Redactor.Value([]string{r.Reason, r.By}).([]string)
		r.Reason, r.By = said[0], said[1]
	}
	return s.decide(ctx, "ask", func(ctx context.Context) error {
		no, err := sessionNumber(ctx, s.wr.handle, r.Session)
		if err != nil {
			return err
		}
		sum := s.keys.sign(requestRow(r, answered(r)))
		return s.wr.exec(ctx, `INSERT INTO requests (session_no, kind, task, step, digest, reason, scope, by, mac) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			no, string(r.Kind), r.Step.Task, r.Step.Step, answered(r), r.Reason, string(r.Scope), r.By, sum[:])
	})
}

// Asked returns the id of an unanswered request like r, or 0 if there is none.
func (s *Store) Asked(ctx context.Context, r session.Request) (id int64, err error) {
	err = s.read(ctx, func(q querier) error {
		return q.queryRow(ctx, `SELECT coalesce(max(r.id), 0) FROM requests r JOIN sessions s ON s.no = r.session_no
			WHERE s.id = ? AND r.kind = ? AND r.task = ? AND r.step = ? AND r.digest = ?`,
			[]any{string(r.Session), string(r.Kind), r.Step.Task, r.Step.Step, answered(r)}, &id)
	})
	return id, storeError("read requests", err)
}

func requestRow(r session.Request, said string) []byte {
	return texts([]byte("acode-request-v1\x00"), string(r.Session), string(r.Kind), r.Step.Task, r.Step.Step, said, r.Reason, string(r.Scope), r.By)
}

// answered returns the value of the column digest. For an approval that is the digest, @
// and the seq of its question. Thus an earlier approval does not answer the same question
// when it is asked again.
func answered(r session.Request) string {
	if r.Kind != session.RequestApprove {
		return r.Digest
	}
	return r.Digest + "@" + strconv.FormatUint(r.Asked, 10)
}

// answers splits the value that answered returns.
func answers(kind session.RequestKind, said string) (digest string, asked uint64) {
	if kind != session.RequestApprove {
		return said, 0
	}
	digest, seq, _ := strings.Cut(said, "@")
	asked, _ = strconv.ParseUint(seq, 10, 64) // an invalid number answers no question
	return digest, asked
}

// Requests lists the unanswered requests about a session, oldest first, to show them to
// people. It does not check their signatures; Writer.Requests does.
func (s *Store) Requests(ctx context.Context, id session.ID) ([]session.Request, error) {
	return look(ctx, s, func(ctx context.Context, q querier) ([]session.Request, error) {
		no, err := sessionNumber(ctx, q, id)
		if err != nil {
			return nil, err
		}
		return readRequests(ctx, q, nil, no, id)
	})
}

// Requests lists the requests to this process, oldest first. It returns an error for one
// that acode did not sign.
func (w *Writer) Requests(ctx context.Context) ([]session.Request, error) {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	return look(ctx, w, func(ctx context.Context, q querier) ([]session.Request, error) {
		return readRequests(ctx, q, w.st.keys, w.no, w.sess.ID)
	})
}

// readRequests checks signatures with k, or none if k is nil.
func readRequests(ctx context.Context, q querier, k *keys, no int64, id session.ID) (out []session.Request, err error) {
	query := `SELECT id, kind, task, step, digest, reason, scope, by, mac FROM requests WHERE session_no = ? ORDER BY id`
	err = readRows(ctx, q, "read requests", id, query, []any{no}, func(row row) error {
		r := session.Request{Session: id}
		var said string
		var sum session.Hash
		if err := row.Scan(&r.ID, &r.Kind, &r.Step.Task, &r.Step.Step, &said, &r.Reason, &r.Scope, &r.By, &sum); err != nil {
			return err
		}
		if k != nil && !sameHash(sum, k.sign(requestRow(r, said))) {
			return &session.Error{Code: session.ErrTampered, Message: "a request does not match its signature", Place: fmt.Sprintf("request %d", r.ID), Next: session.Do(session.MoveVerify, string(id))}
		}
		r.Digest, r.Asked = answers(r.Kind, said)
		out = append(out, r)
		return nil
	})
	return out, err
}
