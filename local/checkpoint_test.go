package local_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func drawHash(t *rapid.T, name string) (h session.Hash) {
	if rapid.Bool().Draw(t, name) {
		copy(h[:], rapid.SliceOfN(rapid.Byte(), len(h), len(h)).Draw(t, name))
	}
	return h
}

// A checkpoint reads back unchanged, with any fields left out. A part of its bytes is not
// a checkpoint.
func TestCheckpointBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := session.Checkpoint{
			Cursor: session.StepID{Task: rapid.String().Draw(t, "task"), Step: rapid.String().Draw(t, "step")},
			State:  rapid.SampledFrom([]session.State{session.Executing, session.Paused, session.Planning}).Draw(t, "state"),
			Steps:  drawHash(t, "steps"), Files: drawHash(t, "files"), HMAC: drawHash(t, "hmac"),
			KeyID: rapid.SampledFrom([]string{"0badc0de", "5241add0"}).Draw(t, "key"),
		}
		payload, usual := []byte(`{}`), rapid.Bool().Draw(t, "usual")
		if usual {
			payload, _ = json.Marshal(want.Cursor) // two texts always encode
		}
		b := local.EncodeCheckpoint(want, "0badc0de", usual)
		var got session.Checkpoint
		if err := local.DecodeCheckpoint(&got, b, payload, "0badc0de"); err != nil {
			t.Fatalf("DecodeCheckpoint: %v", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("DecodeCheckpoint: (-want +got)\n%s", diff)
		}
		for _, bad := range [][]byte{b[:rapid.IntRange(0, len(b)-1).Draw(t, "end")], append(append([]byte(nil), b...), 0), append([]byte{4}, b[1:]...)} {
			if err := local.DecodeCheckpoint(&got, bad, payload, "0badc0de"); err == nil {
				t.Errorf("DecodeCheckpoint of %x: no error", bad)
			}
		}
	})
}

// A load accepts rows in another order than that of the events, and verify reports them.
func TestVerifyNamesTheOrderOfRows(t *testing.T) {
	o, want := closedSample(t)
	tamper(t, o, `UPDATE steps SET pos = pos + 10; UPDATE steps SET pos = 4294967298 WHERE step = 'step-00000'; UPDATE steps SET pos = 4294967297 WHERE step = 'step-00001';
		UPDATE steps SET pos = 4294967299 WHERE step = 'step-00002'`)
	got, err := loadOnce(t, o, want.ID)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load: (-want +got)\n%s", diff)
	}
	r := verify(t, openRead(t, o))
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].String(), "order of the events") {
		t.Errorf("Verify: got %v", r.Problems)
	}
}

// Text that JSON cannot represent, or that was redacted, is the same in the state and in
// the journal.
func TestStateIsThatOfTheJournal(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 2)
	for i, message := range []string{"not \xff UTF-8", "a " + secretWord} {
		appendAll(t, w, started(w, i, 1))
		d := failed(w, i, 1)
		data := d.Data.(session.StepFailedData)
		data.Message = message
		d.Data = data
		appendAll(t, w, d)
		if got := w.Session().Steps[stepID(i)].Message; got == message {
			t.Errorf("message %q: kept as it was", got)
		}
	}
	if r := verify(t, openRead(t, o)); len(r.Problems) != 0 {
		t.Errorf("Verify: %v", r.Problems)
	}
	if diff := cmp.Diff(w.Session(), load(t, s, w.Session().ID).Session()); diff != "" {
		t.Errorf("Load: (-want +got)\n%s", diff)
	}
}

// L5: of two writers of one session on one connection of one process, only the one with
// the later epoch can write.
func TestSecondWriterOfOneStoreFencesTheFirst(t *testing.T) {
	s := open(t, options(t))
	one := create(t, s, 2)
	two := load(t, s, one.Session().ID)
	appendAll(t, two, acquire(s))
	if _, err := one.Append(t.Context(), started(one, 0, 1)); !errors.Is(err, session.ErrFenced) {
		t.Errorf("Append of the first: got %v, want %v", err, session.ErrFenced)
	}
	appendAll(t, two, started(two, 0, 1))
}

// L5: a second writer in the same epoch, as for a person's decision, also fences the
// first.
func TestSecondWriterOfOneEpochFencesTheFirst(t *testing.T) {
	s := open(t, options(t))
	one := create(t, s, 2)
	two := load(t, s, one.Session().ID)
	appendAll(t, two, started(two, 0, 1))
	if _, err := one.Append(t.Context(), started(one, 1, 1)); !errors.Is(err, session.ErrFenced) {
		t.Errorf("Append of the first: got %v, want %v", err, session.ErrFenced)
	}
	appendAll(t, two, completed(two, 0, 1))
}
