package local

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"

	"github.com/acode-dev/acode/session"
)

// Blob opens the plain content of a blob that is not sealed; the caller closes it. It is in
// memory: what is not sealed has at most 64 KiB. It returns ErrKey for what is sealed, which
// stays here, and ErrCorrupt for what is missing or damaged.
func (o *Outbox) Blob(ctx context.Context, hash string) (io.ReadCloser, error) {
	name, err := parseHash(hash)
	if err != nil {
		return nil, err
	}
	p, err := look(ctx, o, func(ctx context.Context, q querier) (pendingBlob, error) { return readSmall(ctx, q, name) })
	if errors.Is(err, sql.ErrNoRows) {
		return nil, damagedBlob(name, errors.New("it is missing, or sealed in a file of its own"))
	}
	if err != nil {
		return nil, err
	}
	if p.codec == codecSealed {
		return nil, &session.Error{Code: session.ErrKey, Message: "sealed content is never sent", Place: "blob " + hash}
	}
	return o.st.unpack(p, nil)
}

// Blobs lists the blobs that d names, each once. Sealed ones are left out. One that cannot be looked at
// is listed, so that whoever opens it hears why.
func (o *Outbox) Blobs(d session.Delivery) (out []session.BlobRef) {
	done := map[string]bool{}
	for _, e := range d.Events {
		for _, hash := range o.named(e) {
			if done[hash] {
				continue
			}
			done[hash] = true
			if ref, sealed := o.look(hash); !sealed {
				out = append(out, ref)
			}
		}
	}
	return out
}

// named lists what an event names, and what the blob names that holds its payload.
func (o *Outbox) named(e session.Event) []string {
	hashes := blobsOf(e)
	if !bytes.HasPrefix(e.Payload, []byte(payloadPrefix)) || len(hashes) == 0 {
		return hashes
	}
	r, err := o.Blob(context.Background(), hashes[0])
	if err == nil {
		e.Full, err = io.ReadAll(r)
	}
	if err != nil {
		return hashes
	}
	return blobsOf(e)
}

// look finds out how long a blob is and whether it is sealed. What the database does not hold
// is sealed in a file, or missing, which is for acode verify to say.
func (o *Outbox) look(hash string) (ref session.BlobRef, sealed bool) {
	ref = session.BlobRef{Hash: hash}
	name, err := parseHash(hash)
	if err != nil {
		return ref, false
	}
	var codec string
	ctx := context.Background()
	err = o.read(ctx, func(q querier) error {
		return q.queryRow(ctx, `SELECT bytes, codec FROM blobs WHERE hash = ?`, []any{name[:]}, &ref.Bytes, &codec)
	})
	return ref, errors.Is(err, sql.ErrNoRows) || codec == codecSealed
}

// blobFields are how the fields of payloads begin that name a blob.
func blobFields() []string {
	return []string{payloadPrefix + `{"hash":"`, `"plan":{"hash":"`, `"inputs":{"hash":"`, `"learnt":{"hash":"`, `"blob":{"hash":"`, `"whole":{"hash":"`, `"manifest":"`, `"kept":"`, `"made":"`}
}

// blobsOf lists the blobs that an event names. It decodes nothing, which would cost more than to read the
// event; no text in a payload looks like a field, since its quotes are escaped there.
func blobsOf(e session.Event) (hashes []string) {
	for _, payload := range [][]byte{e.Payload, e.Full} {
		for _, field := range blobFields() {
			for rest, found := payload, true; found; {
				if _, rest, found = bytes.Cut(rest, []byte(field)); found {
					name, _, _ := bytes.Cut(rest, []byte(`"`))
					hashes = append(hashes, string(name))
				}
			}
		}
	}
	return hashes
}
