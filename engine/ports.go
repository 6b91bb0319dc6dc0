package engine

import (
	"context"
	"io"

	"github.com/acode-dev/acode/session"
)

// Journal is the store of record for the one session that is executed. *local.Writer
// implements it.
type Journal interface {
	// Session returns the state after the last Append. Callers must only read it.
	Session() *session.Session

	// Append commits drafts and all staged content in one transaction and applies the
	// events to Session. When it returns nil, they are durable, each receipt with its
	// checkpoint (FR-017).
	//
	// Completing an attempt twice with an equal payload changes nothing (FR-031). With
	// another payload Append returns ErrConflict. It returns ErrFenced when another
	// process took the session over. Any other error is fatal, and the outcome of the
	// commit is unknown.
	Append(ctx context.Context, drafts ...session.Draft) ([]session.Event, error)

	// Fence reads the epoch again and returns ErrFenced when another process took the
	// session over. It is called just before each effect.
	Fence(ctx context.Context) error

	// Event reads one event of the session.
	Event(ctx context.Context, seq uint64) (session.Event, error)

	// Events passes the events after one seq, up to another, to take, in their order.
	Events(ctx context.Context, after, last uint64, take func(session.Event) error) error

	// Requests lists the requests to this process, oldest first.
	Requests(ctx context.Context) ([]session.Request, error)

	// AppendAnswering is Append, and removes a request in the same transaction.
	AppendAnswering(ctx context.Context, request int64, drafts ...session.Draft) ([]session.Event, error)

	// Recover makes one last Append possible after ErrDiskFull. It frees reserved space
	// and reads the result of the failed commit.
	Recover(ctx context.Context) error
}

// Blobs stores content that is too large or too secret for the journal. *local.Writer
// implements it.
type Blobs interface {
	// Stage stores exactly size bytes of r under their hash. Small content becomes
	// durable with the next Append. Large content is durable when Stage returns. Content
	// is sealed if it is large or if redaction would change it.
	Stage(ctx context.Context, r io.Reader, size int64) (session.BlobRef, error)

	// StageMasked is Stage for redacted text. It does not seal large content, so that it
	// can be delivered. A negative size stores all of r.
	StageMasked(ctx context.Context, r io.Reader, size int64) (session.BlobRef, error)

	// Open opens content. The caller closes it. It returns ErrKey when the key that
	// sealed the content is missing, and ErrCorrupt when the content is missing or
	// damaged.
	Open(ctx context.Context, hash string) (io.ReadCloser, error)
}

// Files gives confined access to the workspace, in parts for different callers.
// *workspace.Root implements it. Every method returns ErrEscape for a path that leaves
// the workspace or is not a regular file with one link.
type Files interface {
	Reading
	Changing
	Undoing
	Looking
	Guarding
}

// Reading is the part for steps that read.
type Reading interface {
	Read(ctx context.Context, r session.Read) ([]session.FileState, error)

	// Search returns matches as lines "path:line: text", cut at 64 KiB, and the files
	// that matched.
	Search(ctx context.Context, s session.Search) (matches string, cut bool, files []session.FileState, err error)
}

// Changing is the part for steps that change files.
type Changing interface {
	// Size returns the length of a file in bytes; 0 for a missing file.
	Size(path string) int64

	// Prepare computes the effect of changes without applying them. It keeps the hashed
	// files open until Apply or Discard. key names temporary files. It returns
	// ErrFileStep, for example when an edit does not match or a target is missing.
	Prepare(ctx context.Context, key string, changes []session.Change) ([]session.Transition, error)

	// Image reads the content with this hash at path that Prepare found, from the same
	// handle, or computed.
	Image(path, hash string) (io.Reader, error)

	// Apply applies the prepared changes. When it returns nil, the files and their
	// directories are durable. It returns ErrFileChanged and changes nothing when a path
	// changed since Prepare. With any other error it returns the files that it restored.
	Apply(ctx context.Context, key string) ([]session.FileState, error)

	Discard(key string)
}

// Undoing is the part for an attempt after an interrupted one.
type Undoing interface {
	// Inspect returns how much of ts an earlier process applied. foreign lists the paths
	// whose content is neither pre-image nor post-image, in their present state.
	Inspect(ctx context.Context, key string, ts []session.Transition) (session.Progress, []session.FileState, error)

	// Rollback restores the pre-images of paths that equal their post-image, removes
	// leftover temporary files, and makes that durable. It also restores paths that are
	// still as overwrite says. It returns ErrFileChanged and changes nothing when a path
	// has any other content.
	Rollback(ctx context.Context, key string, ts []session.Transition, overwrite []session.FileState, pre func(hash string) (io.ReadCloser, error)) error

	// Tidy removes only the temporary files of an attempt.
	Tidy(ctx context.Context, key string, ts []session.Transition) error
}

// Looking is the part for commands, which access the workspace by themselves.
type Looking interface {
	// InPlace returns ErrEnvironment when the path of the workspace, which commands use,
	// now leads to another directory. It is called before each step.
	InPlace() error

	// Stat returns the present state of these paths. It hashes a file only if its stat
	// differs from the given one.
	Stat(ctx context.Context, known []session.FileState) ([]session.FileState, error)
}

// Box is a sandbox, and what its commands see instead of the whole environment.
type Box struct {
	session.Sandbox
	// Environ is the environment before inputs, captures and the step's own.
	Environ []string
	// Own are variables that replace inputs, such as HOME.
	Own []string
}

// Guarding is the part for the paths that other programs execute or trust. An agent may
// not change them.
type Guarding interface {
	// CheckProtected returns ErrDenied if the changes that Prepare worked out under key
	// touch a protected path.
	CheckProtected(ctx context.Context, key string) error

	// Guarded returns the state of the protected paths.
	Guarded(ctx context.Context) ([]session.Guarded, error)

	// HeldChanges returns how the protected paths differ from an earlier state, and what
	// Place needs to put them back.
	HeldChanges(ctx context.Context, was []session.Guarded) (changes []session.HeldChange, want []session.Guarded, err error)

	// GuardedContent opens a protected file. The caller closes it. Reading returns
	// ErrFileChanged if the file has another content than g says.
	GuardedContent(g session.Guarded) (io.ReadCloser, error)

	// Place makes protected paths as want says, durably.
	Place(ctx context.Context, want []session.Guarded, content func(session.Guarded) (io.ReadCloser, error)) error
}

// Commands runs commands under a supervisor that outlives this process. *command.Runner
// implements it.
type Commands interface {
	// Look reads the record of key. It never starts anything.
	Look(ctx context.Context, key string) (session.CommandRecord, error)

	// Left lists the running processes of the command of key as "pid command line". It
	// lists them even if the record says that the command has ended.
	Left(ctx context.Context, key string) ([]string, error)

	// Run starts the command of req unless it was started before, so that it starts
	// exactly once. It returns the record when the command has ended: finished, unknown
	// or lingering. If ctx ends first, the command continues with its supervisor and Run
	// returns the cause of ctx. Run returns ErrFenced when the supervisor has seen a
	// later epoch.
	Run(ctx context.Context, req session.CommandRequest) (session.CommandRecord, error)

	// Wait returns the record of a claimed key once its command has ended.
	Wait(ctx context.Context, key string) (session.CommandRecord, error)

	// Terminate ends the command and all its descendants: INT, TERM, KILL. The record
	// says cancelled.
	Terminate(ctx context.Context, key string) error

	// Output opens the raw output so far. stdout has both streams in their order, unless
	// the request separates them. The caller closes both. Output returns ErrCorrupt when
	// a file is missing or torn.
	Output(key string) (stdout, stderr io.ReadCloser, err error)

	// Forget removes the output files of a key once its receipt is durable.
	Forget(key string) error
}

// Person answers questions that no policy may decide. The user interface implements it.
type Person interface {
	// Approve asks a question until a person answers it or ctx ends. It returns
	// ErrApproval when no person can be asked.
	Approve(ctx context.Context, item session.Item, question string) (Answer, error)

	// Permit is Approve for a call of a model. offer says in words what the rule would
	// allow that a yes to more than this call adds; it is empty if there is none.
	Permit(ctx context.Context, item session.Item, question, offer string) (Answer, error)

	// Linger asks whether to wait for the remaining processes of a command whose outcome
	// is unknown, or to decide now. It returns ErrUncertain when no person can be asked.
	Linger(ctx context.Context, item session.Item, left []string) (wait bool, err error)

	// Left is called when the session is paused and its commands continue. The wait for a
	// second signal, which ends them, lasts until the channel is closed. If the channel
	// is nil, the wait is short.
	Left(ctx context.Context) <-chan struct{}

	// Uncertain asks for the outcome of a command whose outcome is unknown. command holds
	// the lines of the command. It returns ErrUncertain when no person can be asked.
	Uncertain(ctx context.Context, item session.Item, command []string, why string) (session.OnInterrupt, error)
}

// Answer is a person's answer to an approve step, or to the question about a call.
type Answer struct {
	Granted bool
	By      string
	// Reason of a denial. The model is told.
	Reason string
	// Scope is set for a yes that holds for more than one call.
	Scope session.Scope
}

// Model is a model that a prompt step asks. The providers implement it.
type Model interface {
	// Setup describes the model.
	Setup() session.ModelSetup

	// Ask sends a request and writes the bytes of the reply to into as they arrive. It
	// returns when the reply has ended, or the cause of ctx if that ends first. An error
	// has the code ErrModel unless into failed. It has ErrConfig or ErrEnvironment if no
	// request can succeed, and ErrLimit if the conversation is too long for the model.
	Ask(ctx context.Context, r session.ModelRequest, into io.Writer) error

	// Check asks whether the model is there. It returns ErrEnvironment only if the
	// provider says that there is no such model, ErrConfig for a refused key, and
	// ErrModel if it got no answer to this question.
	Check(ctx context.Context) error

	// Reply reads the bytes of a reply, or of a part of one. Equal bytes give equal
	// replies.
	Reply(raw []byte) (session.Reply, error)
}

// Replies keeps the bytes of replies in files, as they arrive.
type Replies interface {
	Create(key string) (io.WriteCloser, error)
	// Read returns the bytes that arrived; none if there is no file.
	Read(key string) ([]byte, error)
	Forget(key string) error
}

// Conversation is what a prompt step has said and done so far. *agent.Conversation
// implements it. Equal events give equal results.
type Conversation interface {
	// Add takes the next event of the session. read reads the content that it names.
	Add(e session.Event, read func(session.BlobRef) ([]byte, error)) error

	// Last returns the last whole reply, and which of its calls have an outcome. The
	// reply is nil if the model is to be asked.
	Last() (reply *session.Reply, done map[int]bool)

	// Next decides about a reply.
	Next(reply session.Reply, done map[int]bool) session.Decision

	// Work returns the work of a call, or an error if it cannot be carried out.
	Work(call session.ModelCall) (session.CallWork, error)

	// Request returns the request to the model.
	Request() session.ModelRequest

	// Version is that of the code that makes messages of events.
	Version() int

	// Reduce returns what is to be left out so that the next request fits into a context of
	// this many tokens; nil if it fits, or if nothing can be left out. 0 means no limit.
	Reduce(context int64) *session.ContextReducedData

	// Tokens estimates the tokens of the next request. It begins with the numbers that
	// the provider gave for the last one.
	Tokens() int64

	// Stuck says why the conversation makes no progress; empty if it does. Doubtful
	// reports whether one more result can make it Stuck.
	Stuck() string
	Doubtful() bool

	// Refusal, Denial, Resumed, More and BrokenOff return messages that acode adds. The
	// reason of a denial is that of a rule, or of a person, and may be empty then.
	Refusal(err error) string
	Denial(byPerson bool, reason string) string
	Resumed(changed []session.Difference, cut bool) string
	More() string
	BrokenOff() string
	// Before tells what was done in the tasks on which the task of the step depends, one
	// fact after another.
	Before(facts []string) string

	// Rules returns the message with the trusted files of the workspace.
	Rules(files []session.TrustedFile) string
}

// Proposal is a valid plan of a model.
type Proposal struct {
	Plan *session.Plan
	// Lines describe the plan for a person.
	Lines []string
	// Asks says that a person must approve the plan.
	Asks bool
}

// Prompting is what prompt steps need. An engine without prompt steps leaves it empty.
type Prompting struct {
	// Models returns the model of a name in the configuration.
	Models func(name string) (Model, error)
	// Converse returns an empty conversation of a prompt step.
	Converse func(step session.StepID, p *session.Prompt) Conversation
	// Watched shows the text of replies while they arrive.
	Watched bool
	// PlanOnly pauses the session when a model has proposed a valid plan.
	PlanOnly bool
	// Propose checks a plan that a model proposes. An error is for the model.
	Propose func(raw []byte) (Proposal, error)
	// Reads carries out a call that only reads. It returns what the model gets.
	Reads   func(context.Context, session.CallWork) (text string, files []session.FileState, err error)
	Replies Replies
	// Unmask puts secrets in the place of their masks in a change of a model.
	Unmask func(context.Context, session.Change) (session.Change, error)
	// Judge says whether a model may make a call. rules are those that a person added in
	// this session, one a line.
	Judge func(step session.StepID, work session.Step, rules string) session.Permission
	// Diff describes for a person how a file would change.
	Diff func(before, after []byte, path string) []string
	// Always keeps a rule for later sessions.
	Always func(rule string) error
	// Context returns how many tokens a request to a model of this name may have; 0 means
	// that this is not known.
	Context func(model string) int64
	// Limits are those of the session. Price returns the price of a model of this name;
	// zero if none is configured.
	Limits Limits
	Price  func(model string) Price
	// CheckpointEvery is after how many calls of a conversation a checkpoint is written, and
	// CheckpointBefore has the classes of calls before which one is written. Each receipt
	// has a checkpoint anyway.
	CheckpointEvery  int
	CheckpointBefore []string
	// MaxDenied is how many calls may be denied before the session pauses; 0 means no
	// limit.
	MaxDenied int
	// Trusted returns the files of the workspace that a person trusts now. It is called
	// when a prompt step begins, and may be nil.
	Trusted func(context.Context) []session.TrustedFile
	// Changed are the files that changed since the session stopped. Lines are a unified
	// diff, or empty if there is none.
	Changed []session.Difference
}
