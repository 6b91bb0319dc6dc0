package app

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"os"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// pageEvents is how many events of a session are read at once.
const pageEvents = 1000

// History returns the events of a session, oldest first. ref is as in Status. A damaged
// event yields an error with code ErrCorrupt instead.
func (s *Site) History(ctx context.Context, ref string) (iter.Seq2[session.Event, error], error) {
	id, err := s.subject(ctx, ref)
	if err != nil {
		return nil, err
	}
	return s.events(ctx, id, 0), nil
}

// events returns the events of a session above seq after.
func (s *Site) events(ctx context.Context, id session.ID, after uint64) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		for {
			page, err := s.store.Events(ctx, id, after, pageEvents)
			if err != nil && !errors.Is(err, session.ErrCorrupt) {
				yield(session.Event{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			if err != nil && !yield(session.Event{}, err) || len(page) < pageEvents {
				return
			}
		}
	}
}

// Export is all stored data of a session.
type Export struct {
	Row
	// Plan is redacted, and empty if it is damaged.
	Plan   json.RawMessage
	Events iter.Seq2[session.Event, error]
}

// Export returns all stored data of a session without the damaged parts. ref is as in
// Status. An error with code ErrCorrupt comes together with the rest.
func (s *Site) Export(ctx context.Context, ref string) (Export, error) {
	id, err := s.subject(ctx, ref)
	if err != nil {
		return Export{}, err
	}
	sess, err := s.store.View(ctx, id)
	if err != nil {
		return Export{}, err
	}
	var plan json.RawMessage
	p, err := s.store.Plan(ctx, sess)
	if err == nil {
		s.Learn(p)
		plan, err = json.Marshal(s.Redactor.Value(p))
	}
	if err != nil && !errors.Is(err, session.ErrCorrupt) {
		return Export{}, err
	}
	return Export{Row: s.row(summary(sess)), Plan: plan, Events: s.events(ctx, id, 0)}, err
}

// Verified is the result of Verify.
type Verified = local.VerifyReport

// Problem is one problem that Verify found.
type Problem = local.Problem

// Verify replays a session from its first event and checks every hash, signature and
// blob. An empty ref means every session. Verify changes nothing.
func (s *Site) Verify(ctx context.Context, ref string) (Verified, error) {
	var id session.ID
	if ref != "" {
		var err error
		if id, err = s.store.Find(ctx, ref); err != nil {
			return Verified{}, err
		}
	}
	report, err := s.store.Verify(ctx, id)
	if err == nil {
		s.verifyClaims(id, &report)
	}
	return report, err
}

// verifyClaims adds the problems of the commands' records, which are files beside the
// database.
func (s *Site) verifyClaims(id session.ID, report *Verified) {
	ids := []session.ID{id}
	if id == "" {
		dirs, err := os.ReadDir(s.commandDir(""))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			report.Problems = append(report.Problems, local.Problem{Code: session.ErrStoreIO, Place: s.commandDir(""), Message: "the records of commands cannot be listed: " + err.Error()})
		}
		ids = ids[:0]
		for _, dir := range dirs {
			if _, err := session.ParseUUID(dir.Name()); err == nil || dir.IsDir() {
				ids = append(ids, session.ID(dir.Name()))
			}
		}
	}
	for _, id := range ids {
		_, unread := command.Records(s.commandDir(id))
		for _, err := range unread {
			report.Problems = append(report.Problems, local.NewProblem(id, err, s.commandDir(id)))
		}
	}
}
