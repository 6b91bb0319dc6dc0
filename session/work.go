package session

import (
	"slices"
	"time"
)

// WorkKey names one counter of the work in a store. The set is closed; WorkKeys lists it
// for metrics.
type WorkKey struct {
	// Kind is one of the kinds below.
	Kind string
	// Mode is set only for a resume.
	Mode    string
	Outcome string
}

// The kinds of counters.
const (
	// attempts of steps that ended
	WorkSteps = "steps"
	// resumes of sessions that were executed before
	WorkResumes = "resumes"
	// attempts to take a session for execution
	WorkLocks = "locks"
)

// The outcomes of an attempt of a step. An attempt counts twice if its outcome was
// unknown at first and became known later.
const (
	StepsCompleted = "completed"
	StepsFailed    = "failed"
	StepsUnknown   = "unknown"
)

// The modes of a resume: how the resume found the session.
const (
	// its process had stopped it in order
	ResumeContinue = "continue"
	// its process had been killed or had crashed
	ResumeRecover = "recover"
	// unknown, because the resume was refused before, or because the next resume reports
	// the outcome
	ResumeNone = "none"
)

// The outcomes of a resume. A process records its own outcome when it ends. If it was
// interrupted, the next resume records that.
const (
	ResumeCompleted = "completed"
	ResumePaused    = "paused"
	ResumeFailed    = "failed"
	ResumeCancelled = "cancelled"
	// nothing was executed
	ResumeRefused  = "refused"
	ResumeApproval = "awaiting_approval"
	// its process was killed or crashed
	ResumeInterrupted = "interrupted"
)

// The outcomes of an attempt to take a session for execution.
const (
	// an epoch of the session began
	LockAcquired = "acquired"
	// another process executes the session, or a session in its workspace
	LockHeld = "held"
	// the lock cannot be trusted or used
	LockRefused = "refused"
)

// WorkKeys returns the keys of all counters.
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

// ResumePhase is a part of a resume before the first step.
type ResumePhase string

// The phases of a resume, in their order.
const (
	// lock the session and the workspace, including the wait for other processes
	PhaseLock ResumePhase = "lock"
	// read and verify the session
	PhaseLoad ResumePhase = "load"
	// compare files and git, and inspect the steps in progress
	PhaseEnvironment ResumePhase = "environment"
	// compute the remaining steps
	PhasePlan ResumePhase = "plan"
)

// ResumePhases lists every phase in order.
var ResumePhases = []ResumePhase{PhaseLock, PhaseLoad, PhaseEnvironment, PhasePlan}

// PhaseBounds are the upper bounds of the buckets for durations of phases. One more
// bucket holds the longer durations.
var PhaseBounds = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, time.Minute,
}

// BucketOf returns the index of the bucket for d. It returns len(PhaseBounds) if d
// exceeds all bounds.
func BucketOf(d time.Duration) int {
	i, _ := slices.BinarySearch(PhaseBounds, d)
	return i
}

// PhaseBucket holds the number of durations in a bucket and their sum.
type PhaseBucket struct {
	Count uint64
	Sum   time.Duration
}

// Work holds the counters of a store. A missing entry is zero.
type Work struct {
	Counts map[WorkKey]uint64
	// The key of the inner map is a result of BucketOf.
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

// Empty reports whether w has no counts and no durations.
func (w *Work) Empty() bool { return len(w.Counts) == 0 && len(w.Phases) == 0 }

// Add adds n to the counter k.
func (w *Work) Add(k WorkKey, n uint64) {
	if w.Counts == nil {
		w.Counts = map[WorkKey]uint64{}
	}
	w.Counts[k] += n
}
