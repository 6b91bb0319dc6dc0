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

// Blob opens the plain content of a blob that is not sealed; the caller closes it. It
// returns ErrKey for what is sealed in the database, which stays here, and ErrCorrupt for
// what is missing or damaged.
func (o *Outbox) Blob(ctx context.Context, hash string) (io.ReadCloser, error) {
	name, err := parseHash(hash)
	if err != nil {
		return nil, err
	}
	p, err := look(ctx, o, func(ctx context.Context, q querier) (pendingBlob, error) { return readSmall(ctx, q, name) })
	if errors.Is(err, sql.ErrNoRows) {
		r, err := o.st.openPlain(name)
		if errors.Is(err, fs.ErrNotExist) {
			err = damagedBlob(name, errors.New("it is missing, or sealed in a file of its own"))
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

// Blobs lists the blobs that d names, each once, except whole outputs, of which Wholes
// lists those that d names. Sealed ones are left out. One that cannot be looked at is
// listed, so that whoever opens it hears why.
func (o *Outbox) Blobs(d session.Delivery) []session.BlobRef { return o.plain(d, blobFields()) }

// Wholes lists the whole outputs that d names, as Blobs does.
func (o *Outbox) Wholes(d session.Delivery) []session.BlobRef {
	return o.plain(d, []string{wholeField})
}

// plain lists the blobs that are not sealed and that fields of d name.
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

// named lists what fields of an event name, and of the blob that holds its payload.
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

// look finds out whether a blob is sealed, and how long it is where the database holds
// it. What is neither there nor in a file that is not sealed is sealed in one, or
// missing, which is for acode verify to say.
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

// How the fields of payloads begin that name what holds the payload, and a whole output.
const (
	payloadField = payloadPrefix + `{"hash":"`
	wholeField   = `"whole":{"hash":"`
)

// blobFields are how the fields of payloads begin that name any other blob.
func blobFields() []string {
	return []string{payloadField, `"plan":{"hash":"`, `"inputs":{"hash":"`, `"learnt":{"hash":"`, `"blob":{"hash":"`, `"manifest":"`, `"kept":"`, `"made":"`}
}

// namedBy lists the blobs that fields of an event name, with their sizes where the event
// has them. It decodes nothing, which would cost more than to read the event; no text in
// a payload looks like a field, since its quotes are escaped there.
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
					ref.Bytes, _ = strconv.ParseInt(string(digits), 10, 64) // 0 of what is sealed, whose size does not matter here
				}
				refs = append(refs, ref)
			}
		}
	}
	return refs
}
