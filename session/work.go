package session

import (
	"slices"
	"time"
)

// WorkKey names what is counted of the work in a store. The set is closed: metrics list
// all of it, see WorkKeys.
type WorkKey struct {
	// one of the kinds below
	Kind string
	// of a resume; empty for the other kinds
	Mode    string
	Outcome string
}

// What is counted.
const (
	// attempts of steps that came to an end
	WorkSteps = "steps"
	// of sessions that were executed before
	WorkResumes = "resumes"
	// attempts to take a session for execution
	WorkLocks = "locks"
)

// The outcomes of an attempt of a step. One that nobody could know at first, and that was
// found out later, counts as both.
const (
	StepsCompleted = "completed"
	StepsFailed    = "failed"
	StepsUnknown   = "unknown"
)

// The modes of a resume: how it found the session.
const (
	// it had stopped in order
	ResumeContinue = "continue"
	// its process had ended without a word
	ResumeRecover = "recover"
	// not known: it was refused before, or the next resume tells of it
	ResumeNone = "none"
)

// The outcomes of a resume: what it led to. The process notes its own when it ends; that
// it was interrupted is noted by the next resume.
const (
	ResumeCompleted = "completed"
	ResumePaused    = "paused"
	ResumeFailed    = "failed"
	ResumeCancelled = "cancelled"
	// nothing was executed
	ResumeRefused  = "refused"
	ResumeApproval = "awaiting_approval"
	// its process ended without a word
	ResumeInterrupted = "interrupted"
)

// The outcomes of an attempt to take a session for execution.
const (
	// an epoch of the session began
	LockAcquired = "acquired"
	// another process executes the session, or in its workspace
	LockHeld = "held"
	// the lock cannot be trusted or used
	LockRefused = "refused"
)

// WorkKeys lists everything that is counted.
func WorkKeys() []WorkKey {
	out := []WorkKey{
		{WorkSteps, "", StepsCompleted}, {WorkSteps, "", StepsFailed}, {WorkSteps, "", StepsUnknown},
		{WorkLocks, "", LockAcquired}, {WorkLocks, "", LockHeld}, {WorkLocks, "", LockRefused},
		{WorkResumes, ResumeNone, ResumeRefused}, {WorkResumes, ResumeNone, ResumeInterrupted},
	}
	for _, mode := range []string{ResumeContinue, ResumeRecover} {
		for _, outcome := range []string{ResumeCompleted, ResumePaused, ResumeFailed, ResumeCancelled, ResumeApproval} {
			out = append(out, WorkKey{WorkResumes, mode, outcome})
		}
	}
	return out
}

// ResumePhase is a part of a resume, before the first step.
type ResumePhase string

// The phases of a resume, in their order.
const (
	// until session and workspace are locked, waiting for others included
	PhaseLock ResumePhase = "lock"
	// the session is read and verified
	PhaseLoad ResumePhase = "load"
	// files and git are compared, and how far the step in progress got
	PhaseEnvironment ResumePhase = "environment"
	// what is left is computed
	PhasePlan ResumePhase = "plan"
)

// ResumePhases lists every phase.
var ResumePhases = []ResumePhase{PhaseLock, PhaseLoad, PhaseEnvironment, PhasePlan}

// PhaseBounds are the upper bounds of the buckets that durations of phases are counted
// in; what is longer than the last has a bucket of its own.
var PhaseBounds = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, time.Minute,
}

// BucketOf is the index of the bound that a duration is counted under, one more than
// there are where it exceeds them all.
func BucketOf(d time.Duration) int {
	i, _ := slices.BinarySearch(PhaseBounds, d)
	return i
}

// PhaseBucket is how many durations lie between two bounds, and their sum.
type PhaseBucket struct {
	Count uint64
	Sum   time.Duration
}

// Work is what was done in a store. What is missing is zero.
type Work struct {
	Counts map[WorkKey]uint64
	// by BucketOf
	Phases map[ResumePhase]map[int]PhaseBucket
}

// Observe adds the duration of a phase.
func (w *Work) Observe(p ResumePhase, d time.Duration) {
	w.AddPhase(p, BucketOf(d), PhaseBucket{Count: 1, Sum: d})
}

// AddPhase adds the durations of one bucket.
func (w *Work) AddPhase(p ResumePhase, bucket int, more PhaseBucket) {
	if w.Phases == nil {
		w.Phases = map[ResumePhase]map[int]PhaseBucket{}
	}
	if w.Phases[p] == nil {
		w.Phases[p] = map[int]PhaseBucket{}
	}
	b := w.Phases[p][bucket]
	w.Phases[p][bucket] = PhaseBucket{Count: b.Count + more.Count, Sum: b.Sum + more.Sum}
}

// Empty reports whether nothing is counted.
func (w *Work) Empty() bool { return len(w.Counts) == 0 && len(w.Phases) == 0 }

// Add counts k n times more.
func (w *Work) Add(k WorkKey, n uint64) {
	if w.Counts == nil {
		w.Counts = map[WorkKey]uint64{}
	}
	w.Counts[k] += n
}
