package app

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// Verified is what Verify looked at, and what it found.
type Verified = local.VerifyReport

// Problem is something that Verify found wrong.
type Problem = local.Problem

// Verify replays a session from its first event and checks every hash, signature and blob; every session
// when ref is empty. It changes nothing.
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

// verifyClaims adds the records of commands, which lie beside the database.
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
