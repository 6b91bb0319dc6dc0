package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// Restore returns a write or an edit with each mask in its texts replaced by what the
// mask stands for in the present file. The author of c saw the file through ReadText or
// Search. Restore returns other changes as they are. It changes nothing.
//
// ErrUsage means that a mask does not stand for exactly one value of the file, that an
// edit would replace a part of a secret, or that the result would show a masked value.
func (r *Root) Restore(ctx context.Context, c session.Change) (session.Change, error) {
	if c.Op != session.KindEdit && (c.Op != session.KindWrite || !redact.HasMask(c.Content)) {
		return c, nil
	}
	name, err := cleanFile(c.Path)
	if err != nil {
		return c, err
	}
	file, err := r.present(ctx, name)
	if err != nil {
		return c, failed(ctx, name, err)
	}
	full, err := restored(r.Redact.Original(file), file, c)
	if err != nil {
		return c, maskError(name, err)
	}
	return full, nil
}

func restored(o *redact.Original, file []byte, c session.Change) (session.Change, error) {
	full, err := c, error(nil)
	if c.Op == session.KindWrite {
		if full.Content, err = o.Restore(c.Content); err != nil {
			return c, err
		}
		return full, o.Hides([]byte(full.Content), c.Content)
	}
	if full.Old, err = o.RestoreOld(c.Old); err != nil {
		return c, err
	}
	if full.New, err = o.Restore(c.New); err != nil {
		return c, err
	}
	if full.Old == "" {
		return full, nil
	}
	most := 1
	if c.All {
		most = -1
	}
	if grown := bytes.Count(file, []byte(full.Old)) * (len(full.New) - len(full.Old)); grown > maxResult-len(file) {
		// Prepare refuses it
		return full, nil
	}
	return full, o.Hides(bytes.Replace(file, []byte(full.Old), []byte(full.New), most), c.New)
}

// present returns the content of a file, or nothing if there is none.
func (r *Root) present(ctx context.Context, name string) ([]byte, error) {
	d, err := r.folder(path.Dir(name))
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.close()
	f, st, err := d.open(path.Base(name), 1)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st.size > maxEdit {
		return nil, stepError(name, "the file is above 64 MiB, which is too large for its masks to be restored")
	}
	return io.ReadAll(&section{ctx: ctx, r: io.LimitReader(f, st.size)})
}

func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

func maskError(name string, err error) error {
	next := "read the file again and send each mask as it stands there"
	var m *redact.MaskError
	if errors.As(err, &m) {
		switch m.Reason {
		case redact.MaskAmbiguous:
			next = "leave the lines with this mask out: edit the lines around them"
		case redact.SecretTouched:
			next = "name more of the text around the place, so that it occurs only where the file is not masked"
		case redact.SecretShown:
			next = "keep what stands before the mask, or ask a person to make this change"
		}
	}
	return &session.Error{Code: session.ErrUsage, Place: name, Message: err.Error() + "; nothing was changed", Next: session.Words(next)}
}
