package outbox

import (
	"context"
	"io"

	"github.com/acode-dev/acode/session"
)

// Source is the store. It is safe for concurrent use; SaveLane and Beat are called by one
// goroutine at a time. It is one interface because one store serves all of it to the one
// Syncer.
type Source interface {
	// Device returns the random id of the store.
	Device() string

	// Changed lists the lanes that may have events to deliver (LastSeq > Acked), in all
	// states and a stable order. Its cost depends on the number of changed lanes, not of
	// all sessions.
	Changed(ctx context.Context) ([]session.Lane, error)
	// Lanes lists every lane, in the order of session numbers.
	Lanes(ctx context.Context) ([]session.Lane, error)
	// Totals adds up the lanes without listing them. It returns their number, and the
	// events that each Remote acknowledged, if there are any.
	Totals(ctx context.Context) (lanes int, acked map[string]uint64, err error)
	// SaveLane keeps l. It need not be durable: a lost acknowledgement costs a repeat.
	SaveLane(ctx context.Context, l session.Lane) error

	// Delivery reads at most limit events above after, and at most maxBytes of payload,
	// but at least one event. It leaves no cursor open.
	Delivery(ctx context.Context, id session.ID, after uint64, limit int, maxBytes int) (session.Delivery, error)
	// Blobs lists the blobs that d names and that the server must have before d. None of
	// them is sealed.
	Blobs(d session.Delivery) []session.BlobRef
	// Wholes lists the whole outputs that d names. None of them is sealed. The server has
	// them only if Options.WholeOutputs was set.
	Wholes(d session.Delivery) []session.BlobRef
	// Blob opens the plain content of a blob that is not sealed. The caller closes it.
	Blob(ctx context.Context, hash string) (io.ReadCloser, error)
	// HashAt returns the chain's hash at seq, to compare with a mark. 0 has the zero
	// hash.
	HashAt(ctx context.Context, id session.ID, seq uint64) (session.Hash, error)

	// Beat keeps h, so that other processes can read the state of delivery.
	Beat(ctx context.Context, h session.Heartbeat) error
	// Backlog counts the events that are not acknowledged: ready, backing off and in
	// flight.
	Backlog(ctx context.Context) (session.Backlog, error)
}

// Remote is a server. Its errors are *session.SyncFault and hold no password. It is safe
// for concurrent use. It is one interface for the same reason as Source.
type Remote interface {
	// Hello connects if there is no connection, and returns the server's identity.
	Hello(ctx context.Context, device string) (session.Hello, error)
	// Reset makes the next call connect again.
	Reset()
	// Marks lists the marks of the device's sessions above after, by id.
	Marks(ctx context.Context, device string, after session.ID, limit int) ([]session.Mark, error)
	// Deliver stores d by one statement. When it returns, the events up to the mark are
	// durable. Delivering the same events twice changes nothing.
	Deliver(ctx context.Context, d session.Delivery) (session.Mark, error)
	// MissingBlobs returns the hashes whose content the server does not have whole.
	MissingBlobs(ctx context.Context, hashes []string) ([]string, error)
	// PutBlob stores content of size bytes. It may be repeated after any failure.
	PutBlob(ctx context.Context, hash string, size int64, content io.Reader) error
	// Verify recomputes chain hashes of delivered events and moves the verified mark.
	Verify(ctx context.Context, limit int) (more bool, err error)
	// Project fills the server's typed tables.
	Project(ctx context.Context, limit int) (more bool, err error)
}
