package local

import (
	"context"
	"database/sql"
	"errors"
	"io"

	"github.com/acode-dev/acode/session"
)

// Blob opens the plain content of a blob that is not sealed; the caller closes it. It is in
// memory: what is not sealed has at most 64 KiB. It returns ErrKey for what is sealed, which
// stays here, and ErrCorrupt for what is missing or damaged.
func (o *Outbox) Blob(ctx context.Context, hash string) (r io.ReadCloser, err error) {
	err = o.use(ctx, func(ctx context.Context) error {
		r, err = o.blob(ctx, hash)
		return err
	})
	return r, err
}

func (o *Outbox) blob(ctx context.Context, hash string) (io.ReadCloser, error) {
	name, err := parseHash(hash)
	if err != nil {
		return nil, err
	}
	p := pendingBlob{name: name}
	err = o.queryRow(ctx, `SELECT bytes, codec, data FROM blobs WHERE hash = ?`, []any{name[:]}, &p.bytes, &p.codec, &p.data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, damagedBlob(name, errors.New("it is missing, or sealed in a file of its own"))
	}
	if err != nil {
		return nil, rowError("read blob", "", err)
	}
	if p.codec == codecSealed {
		return nil, &session.Error{Code: session.ErrKey, Message: "sealed content is never sent", Place: "blob " + hash}
	}
	return o.st.unpack(p, nil)
}

// Blobs lists the blobs that d names, each once, in the order in which it names them. Sealed
// ones are left out. One that cannot be looked at is listed, so that whoever opens it hears
// why.
func (o *Outbox) Blobs(d session.Delivery) []session.BlobRef {
	var out []session.BlobRef
	done := map[string]bool{}
	for _, e := range d.Events {
		if !mayName(e) {
			continue
		}
		for _, ref := range o.refs(e) {
			if !done[ref.Hash] {
				done[ref.Hash] = true
				out = append(out, ref)
			}
		}
	}
	return out
}

// refs lists what an event names and is not sealed.
func (o *Outbox) refs(e session.Event) (out []session.BlobRef) {
	err := o.use(context.Background(), func(ctx context.Context) error {
		for _, hash := range o.named(ctx, e) {
			if ref, sealed := o.look(ctx, hash); !sealed {
				out = append(out, ref)
			}
		}
		return nil
	})
	if err == nil {
		return out
	}
	for _, hash := range append(blobsOf(e), payloadRef(e)) {
		if hash != "" {
			out = append(out, session.BlobRef{Hash: hash})
		}
	}
	return out
}

// named lists what an event names, and what the blob names that holds its payload.
func (o *Outbox) named(ctx context.Context, e session.Event) []string {
	ref := payloadRef(e)
	if ref == "" {
		return blobsOf(e)
	}
	r, err := o.blob(ctx, ref)
	if err == nil {
		e.Full, err = io.ReadAll(r)
		_ = r.Close() // it only reads memory
	}
	if err != nil {
		return []string{ref}
	}
	return append([]string{ref}, blobsOf(e)...)
}

// look finds out how long a blob is and whether it is sealed. What the database does not hold
// is sealed in a file, or missing, which is for acode verify to say.
func (o *Outbox) look(ctx context.Context, hash string) (ref session.BlobRef, sealed bool) {
	ref = session.BlobRef{Hash: hash}
	name, err := parseHash(hash)
	if err != nil {
		return ref, false
	}
	var codec string
	err = o.queryRow(ctx, `SELECT bytes, codec FROM blobs WHERE hash = ?`, []any{name[:]}, &ref.Bytes, &codec)
	return ref, errors.Is(err, sql.ErrNoRows) || codec == codecSealed
}
