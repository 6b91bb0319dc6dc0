package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

const sid = session.ID("0190b5a2-7c1e-7000-8000-000000000001")

// event makes the next event after s, with a correct hash.
func event(s *session.Session, kind session.EventType, data any) session.Event {
	payload, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	id := s.ID
	if id == "" {
		id = sid
	}
	e := session.Event{Session: id, Seq: s.LastSeq + 1, TimeUS: s.LastUS + 1, Type: kind, Actor: "acode", Epoch: s.Epoch, Payload: payload}
	e.ID[15] = byte(e.Seq)
	e.Hash = e.ChainHash(s.Head)
	return e
}

func newSession(t *testing.T) *session.Session {
	t.Helper()
	s := &session.Session{}
	apply(t, s, session.SessionCreated, session.SessionCreatedData{V: 1, Short: "abc123", Task: "x", Workspace: "/w", Tasks: 1, Steps: 2})
	return s
}

func apply(t *testing.T, s *session.Session, kind session.EventType, data any) session.Delta {
	t.Helper()
	d, err := s.Apply(event(s, kind, data))
	if err != nil {
		t.Fatalf("Apply %s: %v", kind, err)
	}
	return d
}

func move(t *testing.T, s *session.Session, states ...session.State) {
	t.Helper()
	for _, to := range states {
		apply(t, s, session.StateChanged, session.StateChangedData{From: s.State, To: to})
	}
}

var allStates = []session.State{
	session.Created, session.Planning, session.AwaitingApproval, session.Executing,
	session.Paused, session.Completed, session.Failed, session.Cancelled,
}

// I2, FR-002 to FR-004: this is an independent copy of the transition table. A letter
// stands for each state that may follow, in the order of allStates, and a dot for each
// that may not.
func TestTransitions(t *testing.T) {
	allowed := map[session.State]string{
		session.Created:          ".P..p.FC",
		session.Planning:         "..AEp.FC",
		session.AwaitingApproval: ".P.Ep.FC",
		session.Executing:        "..A.pDFC",
		session.Paused:           ".PAE..FC",
		session.Completed:        "........",
		session.Failed:           "........",
		session.Cancelled:        "........",
	}
	pairs := 0
	for _, from := range allStates {
		for i, to := range allStates {
			pairs++
			want := allowed[from][i] != '.'
			if got := from.CanBecome(to); got != want {
				t.Errorf("%s.CanBecome(%s): got %v, want %v", from, to, got, want)
			}
			s := in(t, from)
			_, err := s.Apply(event(s, session.StateChanged, session.StateChangedData{From: from, To: to, Reason: session.ReasonUser}))
			if (err == nil) != want || (err != nil && !errors.Is(err, session.ErrConflict)) {
				t.Errorf("Apply %s to %s: got %v, want allowed %v", from, to, err, want)
			}
			if want && (s.State != to || (to == session.Paused) != (s.Left == from)) {
				t.Errorf("Apply %s to %s: got state %s, left %q", from, to, s.State, s.Left)
			}
		}
		if got, want := from.Terminal(), allowed[from] == "........"; got != want || in(t, from).Resumable() == want {
			t.Errorf("%s: got terminal %v, want %v, and resumable the contrary", from, got, want)
		}
	}
	if pairs != 64 {
		t.Errorf("pairs: got %d, want 64", pairs)
	}
	if (&session.Session{}).Resumable() {
		t.Errorf("Resumable of no session: got true, want false")
	}
}

// in makes a session in the given state.
func in(t *testing.T, state session.State) *session.Session {
	t.Helper()
	s := newSession(t)
	switch state {
	case session.Created:
	case session.Planning, session.Paused, session.Failed, session.Cancelled:
		move(t, s, state)
	case session.AwaitingApproval, session.Executing:
		move(t, s, session.Planning, state)
	case session.Completed:
		move(t, s, session.Planning, session.Executing, state)
	}
	return s
}

// The manifest of a pause remains until the next pause or the next epoch.
func TestPauseKeepsItsManifest(t *testing.T) {
	s := newSession(t)
	apply(t, s, session.StateChanged, session.StateChangedData{From: session.Created, To: session.Paused, Reason: session.ReasonSignal, Detail: "SIGINT", Manifest: "m", Git: "g"})
	if s.Manifest != "m" || s.Git != "g" || s.Reason != session.ReasonSignal || s.Detail != "SIGINT" {
		t.Errorf("pause: got %+v, want manifest m, git g, reason signal", s)
	}
	e := event(s, session.ExecutionAcquired, session.ExecutionAcquiredData{Device: "d", Workspace: "/moved", Config: "c"})
	e.Epoch = 1
	e.Hash = e.ChainHash(s.Head)
	if _, err := s.Apply(e); err != nil || s.Workspace != "/moved" || s.Config != "c" || s.Device != "d" || s.Epoch != 1 {
		t.Errorf("acquired: got %v, %+v, want epoch 1 in /moved", err, s)
	}
}

// The manifest of a receipt remains likewise. A receipt without a manifest does not
// change it.
func TestReceiptsKeepTheirManifest(t *testing.T) {
	s := newSession(t)
	id := session.StepID{Task: "t", Step: "s"}
	apply(t, s, session.StepStarted, session.StepStartedData{StepID: id, Kind: session.KindRun, Key: key(id, 1), Attempt: 1})
	apply(t, s, session.StepUnknown, session.StepUnknownData{StepID: id, Key: key(id, 1), Attempt: 1, Manifest: "a"})
	apply(t, s, session.StepFailedEvent, session.StepFailedData{StepID: id, Key: key(id, 1), Attempt: 1, Manifest: "b"})
	apply(t, s, session.StepStarted, session.StepStartedData{StepID: id, Kind: session.KindRun, Key: key(id, 2), Attempt: 2})
	apply(t, s, session.StepCompleted, session.StepCompletedData{StepID: id, Key: key(id, 2), Attempt: 2})
	if s.Manifest != "b" {
		t.Errorf("manifest: got %q, want b", s.Manifest)
	}
}

// Every refusal has a code.
func TestApplyRefuses(t *testing.T) {
	id := session.StepID{Task: "t", Step: "s"}
	started := session.StepStartedData{StepID: id, Kind: session.KindRun, Key: key(id, 1), Attempt: 1}
	for name, c := range map[string]struct {
		before func(*testing.T, *session.Session)
		kind   session.EventType
		data   any
		change func(*session.Event)
		code   session.Code
	}{
		"seq_skipped":         {kind: session.CheckpointCreated, change: func(e *session.Event) { e.Seq++ }, code: session.ErrOrder},
		"time_not_later":      {kind: session.CheckpointCreated, change: func(e *session.Event) { e.TimeUS-- }, code: session.ErrOrder},
		"created_twice":       {kind: session.SessionCreated, code: session.ErrCorrupt},
		"other_session":       {kind: session.CheckpointCreated, change: func(e *session.Event) { e.Session = "other" }, code: session.ErrCorrupt},
		"unknown_type":        {kind: "StepDreamt", code: session.ErrNewer},
		"payload_no_json":     {kind: session.StateChanged, change: func(e *session.Event) { e.Payload = []byte("{") }, code: session.ErrCorrupt},
		"full_no_json":        {kind: session.StateChanged, change: func(e *session.Event) { e.Full = []byte("{") }, code: session.ErrCorrupt},
		"from_other_state":    {kind: session.StateChanged, data: session.StateChangedData{From: session.Planning, To: session.Executing}, code: session.ErrConflict},
		"epoch_skipped":       {kind: session.ExecutionAcquired, change: func(e *session.Event) { e.Epoch = 2 }, code: session.ErrConflict},
		"epoch_not_raised":    {kind: session.ExecutionAcquired, code: session.ErrConflict},
		"acquired_at_end":     {before: ended, kind: session.ExecutionAcquired, change: func(e *session.Event) { e.Epoch = 1 }, code: session.ErrConflict},
		"receipt_unstarted":   {kind: session.StepCompleted, data: session.StepCompletedData{StepID: id, Key: key(id, 1)}, code: session.ErrConflict},
		"failure_unstarted":   {kind: session.StepFailedEvent, data: session.StepFailedData{StepID: id, Key: key(id, 1)}, code: session.ErrConflict},
		"unknown_unstarted":   {kind: session.StepUnknown, data: session.StepUnknownData{StepID: id, Key: key(id, 1)}, code: session.ErrConflict},
		"other_key":           {before: with(session.StepStarted, started), kind: session.StepCompleted, data: session.StepCompletedData{StepID: id, Key: key(id, 2)}, code: session.ErrConflict},
		"started_twice":       {before: with(session.StepStarted, started), kind: session.StepStarted, data: started, code: session.ErrConflict},
		"attempt_zero":        {kind: session.StepStarted, data: session.StepStartedData{StepID: id}, code: session.ErrConflict},
		"wrong_epoch":         {kind: session.CheckpointCreated, change: func(e *session.Event) { e.Epoch = 9 }, code: session.ErrConflict},
		"after_the_end":       {before: ended, kind: session.CheckpointCreated, code: session.ErrConflict},
		"foreign_key":         {kind: session.StepStarted, data: session.StepStartedData{StepID: id, Key: key(session.StepID{Task: "x", Step: "y"}, 1), Attempt: 1}, code: session.ErrConflict},
		"attempt_skipped":     {kind: session.StepStarted, data: session.StepStartedData{StepID: id, Key: key(id, 2), Attempt: 2}, code: session.ErrConflict},
		"receipt_attempt":     {before: with(session.StepStarted, started), kind: session.StepCompleted, data: session.StepCompletedData{StepID: id, Key: key(id, 1), Attempt: 2}, code: session.ErrConflict},
		"asked_when_done":     {before: done(id), kind: session.ApprovalRequested, data: session.ApprovalRequestedData{StepID: id, Digest: "d"}, code: session.ErrConflict},
		"granted_twice":       {before: answered(id), kind: session.ApprovalGranted, data: session.ApprovalGrantedData{StepID: id, Digest: "d", For: 3}, code: session.ErrConflict},
		"grant_unasked":       {kind: session.ApprovalGranted, data: session.ApprovalGrantedData{StepID: id, Digest: "d"}, code: session.ErrConflict},
		"late_epoch":          {before: acquired, kind: session.CheckpointCreated, change: func(e *session.Event) { e.Epoch = 0 }, code: session.ErrConflict},
		"started_when_done":   {before: done(id), kind: session.StepStarted, data: session.StepStartedData{StepID: id, Key: key(id, 2), Attempt: 2}, code: session.ErrConflict},
		"other_operation":     {before: with(session.StepStarted, started), kind: session.StepCompleted, data: session.StepCompletedData{StepID: id, Key: strings.Replace(key(id, 1), session.OpMain, "check", 1), Attempt: 1}, code: session.ErrConflict},
		"unknown_when_failed": {before: failed(id, session.ErrCommand), kind: session.StepUnknown, data: session.StepUnknownData{StepID: id, Key: key(id, 1), Attempt: 1}, code: session.ErrConflict},
		"granted_when_denied": {before: denied(id), kind: session.ApprovalGranted, data: session.ApprovalGrantedData{StepID: id, Digest: "d"}, code: session.ErrConflict},
		"deny_other_digest":   {before: with(session.ApprovalRequested, session.ApprovalRequestedData{StepID: id, Digest: "d"}), kind: session.ApprovalDenied, data: session.ApprovalDeniedData{StepID: id, Digest: "e"}, code: session.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			if c.before != nil {
				c.before(t, s)
			}
			if c.data == nil {
				c.data = struct{}{}
			}
			e := event(s, c.kind, c.data)
			if c.change != nil {
				c.change(&e)
				e.Hash = e.ChainHash(s.Head)
			}
			_, err := s.Apply(e)
			var envelope *session.Error
			if !errors.Is(err, c.code) || !errors.As(err, &envelope) || envelope.Place == "" || envelope.Message == "" {
				t.Errorf("Apply: got %v, want %s with message and place", err, c.code)
			}
		})
	}
}

func done(id session.StepID) func(*testing.T, *session.Session) {
	return func(t *testing.T, s *session.Session) {
		apply(t, s, session.StepStarted, session.StepStartedData{StepID: id, Key: key(id, 1), Attempt: 1})
		apply(t, s, session.StepCompleted, session.StepCompletedData{StepID: id, Key: key(id, 1), Attempt: 1})
	}
}

func answered(id session.StepID) func(*testing.T, *session.Session) {
	return func(t *testing.T, s *session.Session) {
		apply(t, s, session.ApprovalRequested, session.ApprovalRequestedData{StepID: id, Digest: "d"})
		apply(t, s, session.ApprovalGranted, session.ApprovalGrantedData{StepID: id, Digest: "d", For: 2})
	}
}

func denied(id session.StepID) func(*testing.T, *session.Session) {
	return func(t *testing.T, s *session.Session) {
		apply(t, s, session.ApprovalRequested, session.ApprovalRequestedData{StepID: id, Digest: "d"})
		apply(t, s, session.ApprovalDenied, session.ApprovalDeniedData{StepID: id, Digest: "d"})
	}
}

func failed(id session.StepID, code session.Code) func(*testing.T, *session.Session) {
	return func(t *testing.T, s *session.Session) {
		apply(t, s, session.StepStarted, session.StepStartedData{StepID: id, Key: key(id, 1), Attempt: 1})
		apply(t, s, session.StepFailedEvent, session.StepFailedData{StepID: id, Key: key(id, 1), Attempt: 1, Code: code})
	}
}

func acquired(t *testing.T, s *session.Session) {
	t.Helper()
	e := event(s, session.ExecutionAcquired, session.ExecutionAcquiredData{})
	e.Epoch++
	e.Hash = e.ChainHash(s.Head)
	if _, err := s.Apply(e); err != nil {
		t.Fatalf("Apply %s: %v", e.Type, err)
	}
}

// key returns the idempotency key of an attempt in the session of these tests.
func key(id session.StepID, attempt int) string {
	return session.Key{Session: sid, Step: id, Operation: session.OpMain, Attempt: attempt}.String()
}

func ended(t *testing.T, s *session.Session) { move(t, s, session.Cancelled) }

func with(kind session.EventType, data any) func(*testing.T, *session.Session) {
	return func(t *testing.T, s *session.Session) { apply(t, s, kind, data) }
}

// Apply reports a wrong hash before it uses any field of the event.
func TestApplyRefusesAWrongHash(t *testing.T) {
	s := newSession(t)
	e := event(s, session.CheckpointCreated, struct{}{})
	e.Hash[0] ^= 1
	if _, err := s.Apply(e); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Apply: got %v, want %s", err, session.ErrCorrupt)
	}
	if _, err := (&session.Session{}).Apply(event(&session.Session{}, session.CheckpointCreated, struct{}{})); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Apply of a first event that opens no session: got %v, want %s", err, session.ErrCorrupt)
	}
}

// A step fails, then its outcome becomes unknown, then it is completed.
func TestStepLife(t *testing.T) {
	s := in(t, session.Executing)
	id := session.StepID{Task: "build", Step: "make"}
	if got := s.Status(id); got != session.Pending {
		t.Errorf("Status before: got %s, want pending", got)
	}
	apply(t, s, session.StepStarted, session.StepStartedData{StepID: id, Key: key(id, 1), Attempt: 1})
	apply(t, s, session.StepFailedEvent, session.StepFailedData{StepID: id, Key: key(id, 1), Attempt: 1, Code: session.ErrCommand, Message: "exit 1", Files: []session.FileState{{Path: "a", Wrote: true, Hash: "1"}}})
	if st := s.Steps[id]; st.Status != session.StepFailed || st.Code != session.ErrCommand || st.Message != "exit 1" || st.EndedUS != s.LastUS {
		t.Errorf("failed: got %+v", st)
	}
	apply(t, s, session.StepStarted, session.StepStartedData{StepID: id, Key: key(id, 2), Attempt: 2})
	apply(t, s, session.StepUnknown, session.StepUnknownData{StepID: id, Key: key(id, 2), Attempt: 2, Why: "power"})
	if st := s.Steps[id]; st.Status != session.StepUncertain || st.Message != "power" || st.EndedUS != 0 {
		t.Errorf("uncertain: got %+v", st)
	}
	d := apply(t, s, session.StepCompleted, session.StepCompletedData{
		StepID: id, Key: key(id, 2), Attempt: 2, Capture: &session.Capture{Name: "V", Value: "1"},
		Files: []session.FileState{{Path: "a", Hash: "2"}, {Path: "b", Hash: "3"}},
	})
	if diff := cmp.Diff(session.Delta{Cursor: id, Steps: []session.StepID{id}, Files: []string{"a", "b"}}, d); diff != "" {
		t.Errorf("delta (-want +got):\n%s", diff)
	}
	st := s.Steps[id]
	if st.Status != session.StepDone || st.Code != "" || st.Message != "" || st.Capture.Value != "1" || s.Done != 1 || s.Status(id) != session.StepDone {
		t.Errorf("completed: got %+v, done %d", st, s.Done)
	}
	if a, b := s.Files["a"], s.Files["b"]; !a.Wrote || a.Hash != "2" || b.Wrote {
		t.Errorf("files: got %+v, %+v, want a written once to stay written, b not", a, b)
	}
}

// A command that ended while no process watched it took as long as it ran. An end before
// its start or after its receipt comes from another clock and is ignored.
func TestStepEndsWithItsCommand(t *testing.T) {
	id := session.StepID{Task: "build", Step: "make"}
	for _, c := range []struct {
		name string
		// end and want are microseconds after the start; the receipt follows after 100.
		end, want int64
	}{{"unknown", math.MinInt64, 100}, {"before its receipt", 40, 40}, {"clock set back", -1, 100}, {"clock ahead", 101, 100}} {
		for _, failed := range []bool{false, true} {
			s := in(t, session.Executing)
			apply(t, s, session.StepStarted, session.StepStartedData{StepID: id, Key: key(id, 1), Attempt: 1})
			began := s.LastUS
			end := max(0, began+c.end)
			s.LastUS = began + 99
			if failed {
				apply(t, s, session.StepFailedEvent, session.StepFailedData{StepID: id, Key: key(id, 1), Attempt: 1, EndedUS: end})
			} else {
				apply(t, s, session.StepCompleted, session.StepCompletedData{StepID: id, Key: key(id, 1), Attempt: 1, EndedUS: end})
			}
			if got := s.Steps[id].EndedUS - began; got != c.want {
				t.Errorf("%s, failed %v: got an end after %d us, want %d", c.name, failed, got, c.want)
			}
		}
	}
}

// NFR-012: an answer is kept with its author and its epoch. A new question replaces it.
func TestApprovals(t *testing.T) {
	s := in(t, session.Executing)
	id := session.StepID{Task: "t", Step: "gate"}
	apply(t, s, session.ApprovalRequested, session.ApprovalRequestedData{StepID: id, Question: "?", Digest: "d1"})
	apply(t, s, session.ApprovalDenied, session.ApprovalDeniedData{StepID: id, Digest: "d1", By: "me", Reason: "no"})
	if a := *s.Steps[id].Approval; a != (session.Approval{Digest: "d1", Answer: "denied", By: "me", Reason: "no"}) {
		t.Errorf("denied: got %+v", a)
	}
	apply(t, s, session.ApprovalRequested, session.ApprovalRequestedData{StepID: id, Question: "?", Digest: "d2"})
	if a := *s.Steps[id].Approval; a != (session.Approval{Digest: "d2"}) {
		t.Errorf("asked again: got %+v, want no answer", a)
	}
	apply(t, s, session.ApprovalGranted, session.ApprovalGrantedData{StepID: id, Digest: "d2", By: "me", For: 7})
	if a := *s.Steps[id].Approval; a != (session.Approval{Digest: "d2", Answer: "granted", By: "me", For: 7}) {
		t.Errorf("granted: got %+v", a)
	}
	apply(t, s, session.StepStarted, session.StepStartedData{StepID: id, Key: key(id, 1), Attempt: 1})
	if s.Steps[id].Approval == nil {
		t.Errorf("started: the approval is gone, want it kept")
	}
}

func TestEventForms(t *testing.T) {
	e := session.Event{TimeUS: 1_000_001}
	if got, want := e.Time(), time.Date(1970, 1, 1, 0, 0, 1, 1000, time.UTC); got != want {
		t.Errorf("Time: got %v, want %v", got, want)
	}
	e.Payload, e.Full = []byte(`{"why":"ref"}`), []byte(`{"why":"full"}`)
	var d session.CheckpointCreatedData
	if err := e.Decode(&d); err != nil || d.Why != "full" {
		t.Errorf("Decode: got %q, %v, want the full payload", d.Why, err)
	}
	for _, kind := range session.EventTypes {
		if got, want := kind.Receipt(), slices.ContainsFunc([]string{"Completed", "Failed", "Answered"}, func(end string) bool { return strings.HasSuffix(string(kind), end) }); got != want {
			t.Errorf("%s.Receipt: got %v, want %v", kind, got, want)
		}
	}
	if !(session.Image{Kind: "absent"}).Absent() || (session.Image{Kind: "file"}).Absent() {
		t.Errorf("Absent: want true of absent only")
	}
}

func TestErrors(t *testing.T) {
	cause := errors.New("no such file")
	e := &session.Error{Code: session.ErrPlan, Message: "unreadable", Place: "plan.yml:1", Cause: cause}
	wrapped := fmt.Errorf("load: %w", e)
	if got, want := wrapped.Error(), "load: plan.yml:1: unreadable: no such file"; got != want {
		t.Errorf("Error: got %q, want %q", got, want)
	}
	if !errors.Is(wrapped, session.ErrPlan) || !errors.Is(wrapped, cause) || errors.Is(wrapped, session.ErrConfig) {
		t.Errorf("Is: want the code and the cause and no other code")
	}
	for want, err := range map[session.Code]error{
		session.ErrPlan: wrapped, session.ErrLocked: fmt.Errorf("x: %w", session.ErrLocked), session.ErrInternal: cause,
	} {
		if got := session.CodeOf(err); got != want {
			t.Errorf("CodeOf(%v): got %s, want %s", err, got, want)
		}
	}
	if got := session.ErrPlan.Error(); got != "ACODE-PLAN-001" {
		t.Errorf("Code.Error: got %s", got)
	}
}

// Signed covers each field of a checkpoint and of a commit except the HMAC.
func TestSignedCoversEveryField(t *testing.T) {
	checkpoints := []session.Checkpoint{
		{}, {Session: "s"}, {Seq: 1}, {Cursor: session.StepID{Task: "s"}}, {Cursor: session.StepID{Step: "s"}}, {State: "s"}, {Epoch: 1},
		{Steps: session.Hash{1}}, {Files: session.Hash{1}}, {Plan: "s"}, {Head: session.Hash{1}}, {KeyID: "s"},
	}
	commits := []session.Commit{
		{}, {Session: "s"}, {LastSeq: 1}, {Head: session.Hash{1}}, {Epoch: 1}, {Row: session.Hash{1}}, {Steps: session.Hash{1}}, {Files: session.Hash{1}}, {KeyID: "s"},
	}
	seen := map[string]bool{}
	for _, c := range checkpoints {
		seen[string(c.Signed())] = true
	}
	for _, c := range commits {
		seen[string(c.Signed())] = true
	}
	if got, want := len(seen), len(checkpoints)+len(commits); got != want {
		t.Errorf("Signed: got %d different texts, want %d", got, want)
	}
	if a, b := (session.Checkpoint{HMAC: session.Hash{1}}), (session.Checkpoint{}); string(a.Signed()) != string(b.Signed()) {
		t.Errorf("Signed of a checkpoint: depends on the HMAC itself")
	}
	if a, b := (session.Commit{HMAC: session.Hash{1}}), (session.Commit{}); string(a.Signed()) != string(b.Signed()) {
		t.Errorf("Signed of a commit: depends on the HMAC itself")
	}
}

// Some directories are named after a ValidName: at most 64 bytes, and neither "." nor
// "..".
func TestValidName(t *testing.T) {
	for in, want := range map[string]bool{
		"a": true, "A.b_c-9": true, "...": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, ".": false, "..": false, "a/b": false, "a b": false, "é": false,
	} {
		if got := session.ValidName(in); got != want {
			t.Errorf("ValidName(%q): got %v, want %v", in, got, want)
		}
	}
}
