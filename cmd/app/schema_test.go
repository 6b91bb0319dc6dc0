package app

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/acode-dev/acode/session"
)

var updateSchema = flag.Bool("update-schema", false, "write events.json anew")

// The schema of events that the program carries is the one that the types give.
func TestEventsSchemaIsMadeFromTypes(t *testing.T) {
	want, err := makeEventsSchema()
	if err != nil {
		t.Fatal(err)
	}
	if *updateSchema {
		if err := os.WriteFile("events.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("events.json"); err != nil || string(got) != string(want) || !*updateSchema && eventsSchema != string(want) {
		t.Errorf("cmd/app/events.json is not what the types give (%v); run: go test ./cmd/app -run Schema -update-schema", err)
	}
}

// makeEventsSchema describes the payload of each type of event.
func makeEventsSchema() ([]byte, error) {
	types := map[string]*jsonschema.Schema{}
	for name, data := range payloads() {
		s, err := jsonschema.ForType(reflect.TypeOf(data), &jsonschema.ForOptions{})
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", name, err)
		}
		types[string(name)] = s
	}
	return json.MarshalIndent(&jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", Title: "Payloads of acode events, by type", Type: "object", Properties: types,
	}, "", "  ")
}

// payloads names the payload type of each event, for the schema.
func payloads() map[session.EventType]any {
	return map[session.EventType]any{
		session.SessionCreated: session.SessionCreatedData{}, session.StateChanged: session.StateChangedData{},
		session.ExecutionAcquired: session.ExecutionAcquiredData{}, session.ChangesAccepted: session.ChangesAcceptedData{},
		session.StepStarted: session.StepStartedData{}, session.StepCompleted: session.StepCompletedData{},
		session.StepFailedEvent: session.StepFailedData{}, session.StepUnknown: session.StepUnknownData{},
		session.ApprovalRequested: session.ApprovalRequestedData{}, session.ApprovalGranted: session.ApprovalGrantedData{},
		session.ApprovalDenied: session.ApprovalDeniedData{}, session.CheckpointCreated: session.CheckpointCreatedData{},
	}
}
