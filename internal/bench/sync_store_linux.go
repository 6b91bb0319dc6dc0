package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// backlog is an open store without delivered events.
type backlog struct {
	st       *local.Store
	out      *local.Outbox
	sessions []session.ID
	// events counts the events of all sessions.
	events int
	// kept is described at source.
	kept chan session.Lane
}

// newBacklog makes a store whose sessions share the events evenly.
func newBacklog(ctx context.Context, home string, sessions, events int) (*backlog, error) {
	st, err := openStore(ctx, home)
	if err != nil {
		return nil, err
	}
	k := &backlog{st: st}
	if k.out, err = st.Outbox(ctx); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	for range sessions {
		w, err := newSession(ctx, st, 1)
		if err == nil {
			err = start(ctx, w, 0)
		}
		if err == nil {
			err = attempts(ctx, w, events)
		}
		if err != nil {
			return nil, errors.Join(err, k.close())
		}
		k.sessions = append(k.sessions, w.Session().ID)
		k.events += int(w.Session().LastSeq)
		if err := w.Close(); err != nil {
			return nil, errors.Join(err, k.close())
		}
	}
	return k, nil
}

func (k *backlog) close() error { return errors.Join(k.out.Close(), k.st.Close()) }

// perCommit is the number of events in one commit of a backlog.
const perCommit = 1000

// attempts makes a session events long, with failed attempts of its first step. The text
// of each failure is as long as the result of an ordinary step.
func attempts(ctx context.Context, w *local.Writer, events int) error {
	id := stepID(0)
	for left := events - int(w.Session().LastSeq); left > 0; left = events - int(w.Session().LastSeq) {
		var ds []session.Draft
		for n := w.Session().Steps[id].Attempt; len(ds) < min(left, perCommit); n++ {
			why := strings.Repeat(fmt.Sprintf("%07d ", n*7919%10_000_000), resultBytes/8)
			ds = append(ds,
				session.Draft{Type: session.StepFailedEvent, Data: session.StepFailedData{StepID: id, Key: key(w, id, n), Attempt: n, Code: session.ErrFileStep, Message: why}},
				session.Draft{Type: session.StepStarted, Data: session.StepStartedData{StepID: id, Kind: session.KindRead, Key: key(w, id, n+1), Attempt: n + 1, Digest: strings.Repeat("0", 64), By: "resume"}})
		}
		if _, err := w.Append(ctx, ds...); err != nil {
			return err
		}
	}
	return nil
}

// rewind resets all lanes, so that nothing counts as delivered.
func (k *backlog) rewind(ctx context.Context) error {
	for _, id := range k.sessions {
		if err := k.out.SaveLane(ctx, session.Lane{Session: id}); err != nil {
			return err
		}
	}
	return nil
}

// source is a store as the outbox sees it.
type source struct {
	*local.Outbox
	// kept receives the lanes that were saved, while it has room. It may be nil.
	kept chan<- session.Lane
}

// SaveLane implements outbox.Source.
func (s source) SaveLane(ctx context.Context, l session.Lane) error {
	err := s.Outbox.SaveLane(ctx, l)
	if err == nil && s.kept != nil {
		select {
		case s.kept <- l:
		default:
		}
	}
	return err
}

// link is a connection from a store to a server.
type link struct {
	server *remote.Server
	syncer *outbox.Syncer
}

// connect opens a link.
func (k *backlog) connect(ctx context.Context, address string) (*link, error) {
	r, err := remote.Open(remote.Options{URL: address, Now: now})
	if err != nil {
		return nil, err
	}
	if _, err := r.Hello(ctx, k.st.Device()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	o := outbox.Options{Source: source{k.out, k.kept}, Remote: r, Now: now, Heartbeat: session.Heartbeat{PID: os.Getpid(), Command: "bench"}}
	return &link{server: r, syncer: outbox.New(o)}, nil
}

// drain delivers everything to an address of s and records the time.
func (k *backlog) drain(ctx context.Context, s *server, address string, took *sample) error {
	if err := k.rewind(ctx); err != nil {
		return err
	}
	l, err := k.connect(ctx, address)
	if err != nil {
		return err
	}
	err = took.timed(func() error { return l.syncer.Drain(ctx) })
	if err := errors.Join(err, l.server.Close()); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	return s.holds(ctx, k.events)
}

const (
	plainTable = `CREATE TABLE plain (session_id uuid, seq bigint, id uuid, time_us bigint, epoch bigint, type text, actor text, device text, prev bytea, hash bytea, payload bytea)`
	plainCopy  = `COPY plain FROM STDIN (FORMAT binary)`

	// plainEvents are read from the store at once.
	plainEvents = 10_000
	// plainBytes is the most payload of a read.
	plainBytes = 4 << 20
)

// copyPlain copies all events by one COPY into a table of the same columns without index,
// trigger or partition. It reads them from the same store in the same pieces.
func (k *backlog) copyPlain(ctx context.Context, s *server, took *sample) error {
	if err := execute(ctx, s.admin, plainTable); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.admin)
	if err != nil {
		return err
	}
	// No transaction is open on it.
	defer func() { _ = conn.Close(ctx) }()
	var rows int64
	err = took.timed(func() error {
		r, w := io.Pipe()
		// The reader receives the error.
		go func() { _ = w.CloseWithError(k.encode(ctx, w)) }()
		tag, err := conn.PgConn().CopyFrom(ctx, r, plainCopy)
		rows = tag.RowsAffected()
		return errors.Join(err, r.Close())
	})
	if err == nil && rows != int64(k.events) {
		err = fmt.Errorf("%d rows, want %d", rows, k.events)
	}
	return err
}

// encode writes all events in the binary format of COPY.
func (k *backlog) encode(ctx context.Context, w io.Writer) error {
	b := append([]byte("PGCOPY\n\xff\r\n\x00"), 0, 0, 0, 0, 0, 0, 0, 0)
	for _, id := range k.sessions {
		uuid, err := session.ParseUUID(string(id))
		if err != nil {
			return err
		}
		for after := uint64(0); ; {
			d, err := k.out.Delivery(ctx, id, after, plainEvents, plainBytes)
			if err != nil {
				return err
			}
			if len(d.Events) == 0 {
				break
			}
			for i := range d.Events {
				b = appendEvent(b, uuid, d.Device, &d.Events[i])
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
			b, after = b[:0], d.Events[len(d.Events)-1].Seq
		}
	}
	_, err := w.Write(append(b, 0xff, 0xff))
	return err
}

func appendEvent(b []byte, id [16]byte, device string, e *session.Event) []byte {
	b = binary.BigEndian.AppendUint16(b, 11)
	b = appendField(b, id[:])
	b = appendNumber(b, e.Seq)
	b = appendField(b, e.ID[:])
	b = appendNumber(b, uint64(e.TimeUS))
	b = appendNumber(b, e.Epoch)
	b = appendField(b, e.Type)
	b = appendField(b, e.Actor)
	b = appendField(b, device)
	b = append(b, 0xff, 0xff, 0xff, 0xff) // null
	b = appendField(b, e.Hash[:])
	return appendField(b, e.Payload)
}

func appendField[T ~string | ~[]byte](b []byte, v T) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}

func appendNumber(b []byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 8), n)
}
