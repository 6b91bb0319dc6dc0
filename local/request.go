package local

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/acode-dev/acode/session"
)

// Ask leaves a request for the process that holds the session. It is no event.
func (s *Store) Ask(ctx context.Context, r session.Request) error {
	if s.opts.Redactor != nil {
		said := s.opts.Redactor.Value([]string{r.Reason, r.By}).([]string)
		r.Reason, r.By = said[0], said[1]
	}
	return s.decide(ctx, "ask", func(ctx context.Context) error {
		no, err := sessionNumber(ctx, s.wr.link, r.Session)
		if err != nil {
			return err
		}
		sum := s.keys.sign(requestRow(r, answered(r)))
		return s.wr.exec(ctx, `INSERT INTO requests (session_no, kind, task, step, digest, reason, by, mac) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			no, string(r.Kind), r.Step.Task, r.Step.Step, answered(r), r.Reason, r.By, sum[:])
	})
}

// Asked gives the ID of a request like r that nobody has answered yet; 0: there is none.
func (s *Store) Asked(ctx context.Context, r session.Request) (id int64, err error) {
	err = s.read(ctx, func(q querier) error {
		return q.queryRow(ctx, `SELECT coalesce(max(r.id), 0) FROM requests r JOIN sessions s ON s.no = r.session_no
			WHERE s.id = ? AND r.kind = ? AND r.task = ? AND r.step = ? AND r.digest = ?`,
			[]any{string(r.Session), string(r.Kind), r.Step.Task, r.Step.Step, answered(r)}, &id)
	})
	return id, storeError("read requests", err)
}

func requestRow(r session.Request, said string) []byte {
	return texts([]byte("acode-request-v1\x00"), string(r.Session), string(r.Kind), r.Step.Task, r.Step.Step, said, r.Reason, r.By)
}

// answered is what the column digest says: the digest and, of an approve, @ and the seq
// of its question, so that no yes that was given before answers the same question when it
// is asked anew.
func answered(r session.Request) string {
	if r.Kind != session.RequestApprove {
		return r.Digest
	}
	return r.Digest + "@" + strconv.FormatUint(r.Asked, 10)
}

// answers takes apart what answered put together.
func answers(kind session.RequestKind, said string) (digest string, asked uint64) {
	if kind != session.RequestApprove {
		return said, 0
	}
	digest, seq, _ := strings.Cut(said, "@")
	asked, _ = strconv.ParseUint(seq, 10, 64) // one that is none answers no question
	return digest, asked
}

// Requests lists what was asked about a session and has no answer yet, oldest first, for
// people: it is not checked who wrote it, as a Writer does.
func (s *Store) Requests(ctx context.Context, id session.ID) ([]session.Request, error) {
	return look(ctx, s, func(ctx context.Context, q querier) ([]session.Request, error) {
		no, err := sessionNumber(ctx, q, id)
		if err != nil {
			return nil, err
		}
		return readRequests(ctx, q, nil, no, id)
	})
}

// Requests lists what others asked of this process, oldest first. One that acode did not
// write is an error.
func (w *Writer) Requests(ctx context.Context) ([]session.Request, error) {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	return look(ctx, w, func(ctx context.Context, q querier) ([]session.Request, error) {
		return readRequests(ctx, q, w.st.keys, w.no, w.sess.ID)
	})
}

// readRequests checks signatures with k; nil checks none.
func readRequests(ctx context.Context, q querier, k *keys, no int64, id session.ID) (out []session.Request, err error) {
	query := `SELECT id, kind, task, step, digest, reason, by, mac FROM requests WHERE session_no = ? ORDER BY id`
	err = readRows(ctx, q, "read requests", id, query, []any{no}, func(row row) error {
		r := session.Request{Session: id}
		var said string
		var sum session.Hash
		if err := row.Scan(&r.ID, &r.Kind, &r.Step.Task, &r.Step.Step, &said, &r.Reason, &r.By, &sum); err != nil {
			return err
		}
		if k != nil && !sameHash(sum, k.sign(requestRow(r, said))) {
			return &session.Error{Code: session.ErrTampered, Message: "a request is not what was signed", Place: fmt.Sprintf("request %d", r.ID), Next: session.Do(session.MoveVerify, string(id))}
		}
		r.Digest, r.Asked = answers(r.Kind, said)
		out = append(out, r)
		return nil
	})
	return out, err
}
