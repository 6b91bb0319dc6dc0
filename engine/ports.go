package engine

import (
	"context"
	"io"

	"github.com/acode-dev/acode/session"
)

// Journal is the store of record for the one session that is executed. *local.Writer
// implements it.
type Journal interface {
	// Session is the state after the last Append; callers only read it.
	Session() *session.Session

	// Append commits drafts and whatever Stage holds in one transaction and applies them
	// to Session. When it returns nil they are durable, each receipt with its checkpoint
	// (FR-017). Completing an attempt twice with an equal payload changes nothing
	// (FR-031), with another payload it returns ErrConflict. It returns ErrFenced when
	// another process took the session over. Any other error is fatal: the outcome of the
	// commit is unknown.
	Append(ctx context.Context, drafts ...session.Draft) ([]session.Event, error)

	// Fence reads the epoch again and returns ErrFenced when it is no longer ours. It is
	// called just before each effect.
	Fence(ctx context.Context) error

	// Event reads one event of the session.
	Event(ctx context.Context, seq uint64) (session.Event, error)

	// Requests lists what others asked of this process, oldest first.
	Requests(ctx context.Context) ([]session.Request, error)

	// AppendAnswering is Append, and removes a request in the same transaction.
	AppendAnswering(ctx context.Context, request int64, drafts ...session.Draft) ([]session.Event, error)

	// Recover makes one last Append possible after ErrDiskFull: it gives back reserved
	// room and reads again what the failed commit did.
	Recover(ctx context.Context) error
}

// Blobs keeps content that is too large or too secret for the journal. *local.Writer
// implements it.
type Blobs interface {
	// Stage keeps exactly size bytes of r under their hash. Small content becomes durable
	// with the next Append; large content is durable when Stage returns. Content that
	// redaction would change is sealed, and so is large content.
	Stage(ctx context.Context, r io.Reader, size int64) (session.BlobRef, error)

	// StageMasked is Stage for text that was redacted: large content is not sealed, so
	// that it can be delivered. Where size is negative it keeps all of r.
	StageMasked(ctx context.Context, r io.Reader, size int64) (session.BlobRef, error)

	// Open reads content back, byte for byte. The caller closes it. It returns ErrKey
	// when the key that sealed it is not at hand, ErrCorrupt when it is missing or
	// damaged.
	Open(ctx context.Context, hash string) (io.ReadCloser, error)
}

// Files is the confined way into the workspace, by what one caller needs of it.
// *workspace.Root implements it. Every method returns ErrEscape for a path that leaves
// the workspace or is no regular file with one link.
type Files interface {
	Reading
	Changing
	Undoing
	Looking
}

// Reading is what steps need that read.
type Reading interface {
	Read(ctx context.Context, r session.Read) ([]session.FileState, error)

	// Search gives matches as lines "path:line: text", cut at 64 KiB, and the files
	// searched that matched.
	Search(ctx context.Context, s session.Search) (matches string, cut bool, files []session.FileState, err error)
}

// Changing is what steps need that change files.
type Changing interface {
	// Size gives the length of a file in bytes; 0 for one that is not there.
	Size(path string) int64

	// Prepare works out what changes would do now, without doing it, and keeps open what
	// it hashed until Apply or Discard. key names temporary files. It returns ErrFileStep
	// when an edit does not match, a target is missing, and so on.
	Prepare(ctx context.Context, key string, changes []session.Change) ([]session.Transition, error)

	// Image reads the content with this hash that Prepare found at path, from the same
	// handle, or worked out for it.
	Image(path, hash string) (io.Reader, error)

	// Apply carries out what Prepare worked out. When it returns nil the files and their
	// directories are durable. It returns ErrFileChanged, with nothing changed, when a
	// path is no longer what was prepared. With another error it gives the files that it
	// put back.
	Apply(ctx context.Context, key string) ([]session.FileState, error)

	Discard(key string)
}

// Undoing is what an attempt needs that comes after one which was cut short.
type Undoing interface {
	// Inspect says how far an earlier process got with ts; foreign lists the paths that
	// are neither pre- nor post-image, as they are now.
	Inspect(ctx context.Context, key string, ts []session.Transition) (session.Progress, []session.FileState, error)

	// Rollback puts the pre-images back for paths that equal their post-image, removes
	// leftover temporary files, and makes that durable. Paths that still hold what
	// overwrite says of them are put back as well; it returns ErrFileChanged, with
	// nothing changed, when one holds anything else.
	Rollback(ctx context.Context, key string, ts []session.Transition, overwrite []session.FileState, pre func(hash string) (io.ReadCloser, error)) error

	// Tidy removes the temporary files that an attempt left behind and nothing else.
	Tidy(ctx context.Context, key string, ts []session.Transition) error
}

// Looking is what commands need, which go into the workspace by themselves.
type Looking interface {
	// InPlace returns ErrEnvironment when the path of the workspace, by which commands
	// go, leads elsewhere by now. It is called before each step.
	InPlace() error

	// Stat gives the state of these paths now: hashed where the stat differs from what is
	// given.
	Stat(ctx context.Context, known []session.FileState) ([]session.FileState, error)
}

// Commands runs commands under a supervisor that outlives this process.
// *command.Runner implements it.
type Commands interface {
	// Look reads the record of key. It never starts anything.
	Look(ctx context.Context, key string) (session.CommandRecord, error)

	// Left lists what still runs of the command of key, whatever its record says: "pid
	// command line".
	Left(ctx context.Context, key string) ([]string, error)

	// Run makes sure that the command of req has been started exactly once and returns
	// its record when it is over: finished, unknown or lingering. If ctx ends first, the
	// command goes on with its supervisor and Run returns ctx's cause. It returns
	// ErrFenced when the supervisor has seen a later epoch.
	Run(ctx context.Context, req session.CommandRequest) (session.CommandRecord, error)

	// Wait returns the record of a key that was claimed before, once it is over.
	Wait(ctx context.Context, key string) (session.CommandRecord, error)

	// Terminate ends the command and all its descendants: INT, TERM, KILL. The record
	// says cancelled.
	Terminate(ctx context.Context, key string) error

	// Output opens what the command wrote so far, raw: both streams in their order in
	// stdout, unless the request keeps them apart. The caller closes both. It returns
	// ErrCorrupt when a file is missing or torn.
	Output(key string) (stdout, stderr io.ReadCloser, err error)

	// Forget removes the output files of a key once its receipt is durable.
	Forget(key string) error
}

// Person answers what no policy may decide. A door implements it.
type Person interface {
	// Approve asks a question until somebody answers it or ctx ends. It returns
	// ErrApproval when nobody can be asked.
	Approve(ctx context.Context, item session.Item, question string) (Answer, error)

	// Linger asks whether to wait for what still runs of a command whose outcome is
	// unknown, or to decide now. It returns ErrUncertain when nobody can be asked.
	Linger(ctx context.Context, item session.Item, left []string) (wait bool, err error)

	// Left is told that the session is paused and its commands run on. The wait for a
	// second signal, which ends them, is over when the channel is closed; nil leaves it
	// at a moment.
	Left(ctx context.Context) <-chan struct{}

	// Uncertain asks what became of a command, of these lines, whose outcome is unknown.
	// It returns ErrUncertain when nobody can be asked.
	Uncertain(ctx context.Context, item session.Item, command []string, why string) (session.OnInterrupt, error)
}

// Answer is what a person said to an approve step.
type Answer struct {
	Granted bool
	By      string
	// of a denial
	Reason string
}
