package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

var updateSchema = flag.Bool("update-schema", false, "write events.json")

// The embedded schema of events is the one that the types give.
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
		t.Errorf("cli/events.json is not what the types give (%v); run: go test ./cli -run Schema -update-schema", err)
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
	event, err := jsonschema.For[terminal.EventJSON](nil)
	if err != nil {
		return nil, fmt.Errorf("describe an event: %w", err)
	}
	payload := event.Properties["payload"]
	one := 1
	unread := &jsonschema.Schema{Type: "object", Required: []string{"payload_blob"}, MaxProperties: &one}
	event.Properties["payload"] = &jsonschema.Schema{Description: payload.Description}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		is := any(name)
		event.AllOf = append(event.AllOf, &jsonschema.Schema{
			If: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"event": {Const: &is}}},
			Then: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{
				"payload": {AnyOf: []*jsonschema.Schema{{Ref: "#/properties/" + name}, {Type: "string"}, unread}}}},
		})
	}
	return json.MarshalIndent(&jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", Title: "Payloads of acode events, by type; $defs/event is the event around one",
		Type: "object", Properties: types, Defs: map[string]*jsonschema.Schema{"event": event},
	}, "", "  ")
}

// The schema accepts the lines of history and export, and nothing else.
func TestEventsSchemaDescribesEvents(t *testing.T) {
	schema, err := makeEventsSchema()
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	s.Type, s.Ref = "", "#/$defs/event"
	rules, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	events := []session.Event{
		{Seq: 1, Type: session.StateChanged, Payload: []byte(`{"from":"created","to":"paused","reason":"user"}`)},
		{Seq: 2, Type: session.StateChanged, Payload: []byte("torn")},
		{Seq: 3, Type: session.StateChanged, Payload: []byte(`{"payload_blob":{"hash":"aa","bytes":20000}}`), Full: []byte(`{"from":"created","to":"paused"}`)},
		// From an export whose blob is damaged.
		{Seq: 4, Type: session.StateChanged, Payload: []byte(`{"payload_blob":{"hash":"aa","bytes":20000}}`)},
		{Seq: 5, Type: session.ExecutionAcquired, Payload: []byte(`{"device":"d","host":"box","pid":7,"workspace":"/w"}`)},
	}
	listed := func(yield func(session.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
	var history, document bytes.Buffer
	if err := (terminal.Page{Out: &history, JSON: true}).History(listed); err != nil {
		t.Fatal(err)
	}
	if err := (terminal.Page{Out: &document}).Export(app.Export{Plan: []byte("{}"), Events: listed}); err != nil {
		t.Fatal(err)
	}
	var export struct{ Events []map[string]any }
	if err := json.Unmarshal(document.Bytes(), &export); err != nil {
		t.Fatal(err)
	}
	all := export.Events
	for line := range bytes.Lines(history.Bytes()) {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if kind := e["type"]; kind != "event" {
			t.Errorf("type of a line: got %v", kind)
		}
		all = append(all, e)
	}
	for i, e := range all {
		if err := rules.Validate(e); err != nil {
			t.Errorf("%v: %v", e, err)
		}
		if twin := all[(i+len(events))%len(all)]; !cmp.Equal(without(e, "type"), without(twin, "type")) {
			t.Errorf("history and export differ: %v and %v", e, twin)
		}
	}
	for _, spoil := range []func(map[string]any){
		func(e map[string]any) { delete(e, "ts") },
		func(e map[string]any) { e["more"] = 1 },
		func(e map[string]any) { e["payload"] = map[string]any{"to": 1} },
		func(e map[string]any) { e["payload"] = map[string]any{"payload_blob": 1, "to": "paused"} },
		func(e map[string]any) { e["event"] = string(session.StepStarted) },
	} {
		e := maps.Clone(all[0])
		spoil(e)
		if rules.Validate(e) == nil {
			t.Errorf("the schema allows %v", e)
		}
	}
}

func without(m map[string]any, name string) map[string]any {
	m = maps.Clone(m)
	delete(m, name)
	return m
}

// payloads maps each type of event to its payload type, for the schema.
func payloads() map[session.EventType]any {
	return map[session.EventType]any{
		session.SessionCreated: session.SessionCreatedData{}, session.StateChanged: session.StateChangedData{},
		session.ExecutionAcquired: session.ExecutionAcquiredData{}, session.ChangesAccepted: session.ChangesAcceptedData{}, session.InputsChanged: session.InputsChangedData{}, session.PowersGranted: session.PowersGrantedData{},
		session.ModelAsked: session.ModelAskedData{}, session.ModelAnswered: session.ModelAnsweredData{}, session.ModelFailed: session.ModelFailedData{}, session.MessageAdded: session.MessageAddedData{},
		session.StepStarted: session.StepStartedData{}, session.StepCompleted: session.StepCompletedData{},
		session.StepFailedEvent: session.StepFailedData{}, session.StepUnknown: session.StepUnknownData{},
		session.ApprovalRequested: session.ApprovalRequestedData{}, session.ApprovalGranted: session.ApprovalGrantedData{},
		session.ApprovalDenied: session.ApprovalDeniedData{}, session.CheckpointCreated: session.CheckpointCreatedData{},
	}
}
