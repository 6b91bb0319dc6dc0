package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// Adopt copies the result of a finished command to req in this Runner's session. The
// command has the key and the directory dir of another session, which this session
// continues. The command is never started under the new key either. The copy is durable
// when Adopt returns. ErrCorrupt means that the outputs are gone, ErrUncertain that the
// command did not finish; in both cases nothing was adopted.
func (r *Runner) Adopt(_ context.Context, dir, key string, req session.CommandRequest) error {
	rec, c, err := look(dir, key)
	if err != nil {
		return err
	}
	if rec.State != session.CommandFinished {
		return &session.Error{Code: session.ErrUncertain, Message: fmt.Sprintf("the command is %s, not finished", rec.State), Place: key}
	}
	if err := os.MkdirAll(r.cfg.Dir, 0o700); err != nil {
		return storeError("make the directory of the session's commands", err)
	}
	exit := *c.Exit
	if exit.Out, exit.Err, err = r.adoptOutputs(dir, c, req.Key); err != nil {
		return err
	}
	h := c.Header
	h.Key, h.Session, h.Request = req.Key, r.cfg.Session, digest(req)
	files, err := writeClaim(r.cfg.Dir, adoptPrefix, h, func(string) {})
	if files.w != nil {
		defer files.close()
	}
	if err != nil {
		return fmt.Errorf("adopt claim: %w", err)
	}
	if c.Start != nil {
		if err := writeStart(files.w, req.Key, *c.Start); err != nil {
			return storeError("adopt the start", err)
		}
	}
	if err := writeExit(files.w, req.Key, exit); err != nil {
		return storeError("adopt the result", err)
	}
	return nil
}

// adoptOutputs copies the outputs of the command with claim c in dir, and returns the
// length of both copies.
func (r *Runner) adoptOutputs(dir string, c claim, to string) (outLen, errLen int64, err error) {
	stdout, stderr, err := c.outputs(dir, c.Header.Key)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = errors.Join(stdout.Close(), stderr.Close()) }()
	paths := outputPaths(r.cfg.Dir, to, c.Header.Split)
	if outLen, err = copyOutput(paths[0], stdout); err == nil && c.Header.Split {
		errLen, err = copyOutput(paths[1], stderr)
	}
	return outLen, errLen, err
}

func copyOutput(path string, from io.Reader) (n int64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return 0, storeError("make a copy of the command's output", err)
	}
	n, err = io.Copy(f, from)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return n, storeError("copy the command's output", err)
	}
	return n, nil
}
