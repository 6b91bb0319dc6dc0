package outbox

import (
	"context"
	"io"

	"github.com/acode-dev/acode/session"
)

// Source is the store as the outbox sees it. It is safe for concurrent use; SaveLane and
// Beat are called by one goroutine at a time. It is one interface, since one store
// answers all of it to the one Syncer that calls it.
type Source interface {
	// Device is the random id of the store.
	Device() string

	// Changed lists lanes that may have something to deliver (LastSeq > Acked), in all
	// states and a stable order. Its cost follows what changed, not how many sessions
	// there are.
	Changed(ctx context.Context) ([]session.Lane, error)
	// Lanes lists every lane, in the order of session numbers.
	Lanes(ctx context.Context) ([]session.Lane, error)
	// Totals adds the lanes up without listing them: their number, and what each Remote
	// of theirs acknowledged, where that is more than nothing.
	Totals(ctx context.Context) (lanes int, acked map[string]uint64, err error)
	// SaveLane keeps l. It need not be durable: a lost acknowledgement costs a repeat.
	SaveLane(ctx context.Context, l session.Lane) error

	// Delivery reads at most limit events above after, and at most maxBytes of payload,
	// but at least one event. No cursor stays open when it returns.
	Delivery(ctx context.Context, id session.ID, after uint64, limit int, maxBytes int) (session.Delivery, error)
	// Blobs lists the blobs, none of them sealed, that d names and that the server must
	// have before d.
	Blobs(d session.Delivery) []session.BlobRef
	// Wholes lists the whole outputs that d names, none of them sealed. The server has
	// them only where Options.WholeOutputs was set.
	Wholes(d session.Delivery) []session.BlobRef
	// Blob opens the plain content of a blob that is not sealed. The caller closes it.
	Blob(ctx context.Context, hash string) (io.ReadCloser, error)
	// HashAt gives the chain's hash at seq, to compare with a mark. 0 has the zero hash.
	HashAt(ctx context.Context, id session.ID, seq uint64) (session.Hash, error)

	// Beat keeps h, where those who only look see how delivery stands.
	Beat(ctx context.Context, h session.Heartbeat) error
	// Backlog counts what is not acknowledged: ready, backing off and in flight alike.
	Backlog(ctx context.Context) (session.Backlog, error)
}

// Remote is a server. Its errors are *session.SyncFault; nothing in them is a password.
// It is safe for concurrent use. It is one interface for the reason that Source is.
type Remote interface {
	// Hello connects where there is no connection, and asks who the server is.
	Hello(ctx context.Context, device string) (session.Hello, error)
	// Reset has the calls to come connect again.
	Reset()
	// Marks lists the marks of the device's sessions above after, by id.
	Marks(ctx context.Context, device string, after session.ID, limit int) ([]session.Mark, error)
	// Deliver stores d by one statement. When it returns, what the mark names is durable.
	// Delivering the same twice changes nothing.
	Deliver(ctx context.Context, d session.Delivery) (session.Mark, error)
	// MissingBlobs gives those of hashes that the server does not have whole.
	MissingBlobs(ctx context.Context, hashes []string) ([]string, error)
	// PutBlob stores content of size bytes. It may be repeated after any failure.
	PutBlob(ctx context.Context, hash string, size int64, content io.Reader) error
	// Verify recomputes chain hashes of what was delivered and moves the verified mark.
	Verify(ctx context.Context, limit int) (more bool, err error)
	// Project fills the server's typed tables.
	Project(ctx context.Context, limit int) (more bool, err error)
}
