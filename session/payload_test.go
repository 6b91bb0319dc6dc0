package session_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// payloads returns a pointer to a zero payload of each type of event.
func payloads() map[session.EventType]any {
	return map[session.EventType]any{
		session.SessionCreated: &session.SessionCreatedData{}, session.StateChanged: &session.StateChangedData{},
		session.ExecutionAcquired: &session.ExecutionAcquiredData{}, session.ChangesAccepted: &session.ChangesAcceptedData{}, session.InputsChanged: &session.InputsChangedData{}, session.PowersGranted: &session.PowersGrantedData{},
		session.StepStarted: &session.StepStartedData{}, session.StepCompleted: &session.StepCompletedData{},
		session.StepFailedEvent: &session.StepFailedData{}, session.StepUnknown: &session.StepUnknownData{},
		session.OperationStarted: &session.OperationStartedData{}, session.OperationCompleted: &session.OperationCompletedData{},
		session.OperationFailed: &session.OperationFailedData{}, session.OperationUnknown: &session.OperationUnknownData{},
		session.OperationsSettled: &session.OperationsSettledData{}, session.ChangesHeld: &session.ChangesHeldData{}, session.HeldDecided: &session.HeldDecidedData{},
		session.ApprovalRequested: &session.ApprovalRequestedData{}, session.ApprovalGranted: &session.ApprovalGrantedData{},
		session.ApprovalDenied: &session.ApprovalDeniedData{}, session.CheckpointCreated: &session.CheckpointCreatedData{},
		session.ModelAsked: &session.ModelAskedData{}, session.ModelAnswered: &session.ModelAnsweredData{}, session.ModelFailed: &session.ModelFailedData{},
		session.MessageAdded: &session.MessageAddedData{}, session.PlanAdopted: &session.PlanAdoptedData{}, session.ContextReduced: &session.ContextReducedData{},
	}
}

// unredactable returns the places inside a type that redaction cannot walk: slices of
// bytes, raw JSON, maps and interfaces. seen holds the structs on the way, because a type
// may contain itself.
func unredactable(place string, t reflect.Type, seen []reflect.Type) (bad []string) {
	switch t.Kind() {
	case reflect.Map, reflect.Interface:
		return []string{place}
	case reflect.Slice, reflect.Array, reflect.Pointer:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return []string{place}
		}
		return unredactable(place, t.Elem(), seen)
	case reflect.Struct:
		if slices.Contains(seen, t) {
			return nil
		}
		for i := range t.NumField() {
			f := t.Field(i)
			bad = append(bad, unredactable(place+"."+f.Name, f.Type, append(seen, t))...)
		}
	}
	return bad
}

// Redaction reads the texts of payloads through structs, slices and pointers, so no
// payload hides a text elsewhere.
func TestPayloadsCanBeRedacted(t *testing.T) {
	all := payloads()
	for _, typ := range session.EventTypes {
		if all[typ] == nil {
			t.Errorf("%s: no payload in the table", typ)
			continue
		}
		for _, place := range unredactable(string(typ), reflect.TypeOf(all[typ]), nil) {
			t.Errorf("%s: redaction cannot read a field of this type", place)
		}
	}
	if len(all) != len(session.EventTypes) {
		t.Errorf("payloads: got %d, want %d", len(all), len(session.EventTypes))
	}
}

// The walk above finds a field of a refused type wherever it is.
func TestUnredactable(t *testing.T) {
	type bytes []byte
	type inner struct {
		Fine [4]uint16
		Raw  json.RawMessage
	}
	type planted struct {
		inner
		Next   *planted
		Names  []string
		Bytes  []byte
		Named  []bytes
		Deep   []*struct{ In map[string]int }
		Any    any
		Text   fmt.Stringer
		Number uint8
	}
	want := []string{"p.inner.Raw", "p.Bytes", "p.Named", "p.Deep.In", "p.Any", "p.Text"}
	if diff := cmp.Diff(want, unredactable("p", reflect.TypeFor[planted](), nil)); diff != "" {
		t.Errorf("unredactable: (-want +got)\n%s", diff)
	}
}
