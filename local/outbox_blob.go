package local

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/acode-dev/acode/session"
)

// Blob opens the plain content of a blob that is not sealed. The caller closes it. Blob
// returns ErrKey for content that is sealed in the database, which is never sent, and
// ErrCorrupt for missing or damaged content.
func (o *Outbox) Blob(ctx context.Context, hash string) (io.ReadCloser, error) {
	name, err := parseHash(hash)
	if err != nil {
		return nil, err
	}
	p, err := look(ctx, o, func(ctx context.Context, q querier) (pendingBlob, error) { return readSmall(ctx, q, name) })
	if errors.Is(err, sql.ErrNoRows) {
		r, err := o.st.openPlain(name)
		if errors.Is(err, fs.ErrNotExist) {
			err = damagedBlob(name, errors.New("it is missing, or sealed in a file"))
		}
		return r, err
	}
	if err != nil {
		return nil, err
	}
	if p.codec == codecSealed {
		return nil, &session.Error{Code: session.ErrKey, Message: "sealed content is never sent", Place: "blob " + hash}
	}
	return o.st.unpack(p, nil)
}

// Blobs lists the blobs that d names, each once. It leaves out sealed blobs and whole
// outputs, which Wholes lists. A blob whose state cannot be read is listed, so that
// opening it returns the error.
func (o *Outbox) Blobs(d session.Delivery) []session.BlobRef { return o.plain(d, blobFields()) }

// Wholes lists the whole outputs that d names, as Blobs does.
func (o *Outbox) Wholes(d session.Delivery) []session.BlobRef {
	return o.plain(d, []string{wholeField})
}

// plain lists the blobs that the given fields of d name and that are not sealed.
func (o *Outbox) plain(d session.Delivery, fields []string) (out []session.BlobRef) {
	done := map[string]bool{}
	for _, e := range d.Events {
		for _, ref := range o.named(e, fields) {
			if done[ref.Hash] {
				continue
			}
			done[ref.Hash] = true
			if sealed := o.look(&ref); !sealed {
				out = append(out, ref)
			}
		}
	}
	return out
}

// named lists the blobs that fields of an event name, also if its payload is in a blob.
func (o *Outbox) named(e session.Event, fields []string) []session.BlobRef {
	refs := namedBy(e, fields)
	payload := namedBy(e, []string{payloadField})
	if !bytes.HasPrefix(e.Payload, []byte(payloadPrefix)) || len(payload) == 0 {
		return refs
	}
	r, err := o.Blob(context.Background(), payload[0].Hash)
	if err == nil {
		e.Full, err = io.ReadAll(r)
	}
	if err != nil {
		return refs
	}
	return namedBy(e, fields)
}

// look reports whether a blob is sealed, and sets its size if the database holds it. A
// blob that is neither in the database nor in a plain file is sealed in a file or
// missing. acode verify reports missing blobs.
func (o *Outbox) look(ref *session.BlobRef) (sealed bool) {
	name, err := parseHash(ref.Hash)
	if err != nil {
		return false
	}
	var codec string
	ctx := context.Background()
	err = o.read(ctx, func(q querier) error {
		return q.queryRow(ctx, `SELECT bytes, codec FROM blobs WHERE hash = ?`, []any{name[:]}, &ref.Bytes, &codec)
	})
	if errors.Is(err, sql.ErrNoRows) {
		_, err := os.Lstat(o.st.blobPath(name, false))
		return errors.Is(err, fs.ErrNotExist)
	}
	return codec == codecSealed
}

// The beginnings of payload fields: of the reference to a payload in a blob, and of a
// whole output.
const (
	payloadField = payloadPrefix + `{"hash":"`
	wholeField   = `"whole":{"hash":"`
)

// blobFields returns the beginnings of the payload fields that name any other blob.
func blobFields() []string {
	return []string{payloadField, `"plan":{"hash":"`, `"inputs":{"hash":"`, `"learnt":{"hash":"`, `"blob":{"hash":"`, `"manifest":"`, `"kept":"`, `"made":"`, `"work":{"hash":"`}
}

// namedBy lists the blobs that fields of an event name, with their sizes if the event has
// them. It decodes no JSON, which would cost more than reading the event. No text in a
// payload looks like a field, because quotes in texts are escaped.
func namedBy(e session.Event, fields []string) (refs []session.BlobRef) {
	for _, payload := range [][]byte{e.Payload, e.Full} {
		for _, field := range fields {
			for rest, found := payload, true; found; {
				if _, rest, found = bytes.Cut(rest, []byte(field)); !found {
					break
				}
				var name []byte
				name, rest, _ = bytes.Cut(rest, []byte(`"`))
				ref := session.BlobRef{Hash: string(name)}
				if size, sized := bytes.CutPrefix(rest, []byte(`,"bytes":`)); sized {
					digits, _, _ := bytes.Cut(size, []byte("}"))
					ref.Bytes, _ = strconv.ParseInt(string(digits), 10, 64) // 0 for sealed blobs, whose size is not needed
				}
				refs = append(refs, ref)
			}
		}
	}
	return refs
}
