package cli

import _ "embed" // for the schema

// eventsSchema describes the payload of each type of event. A test generates it from the
// types, so that the program does not contain the generator.
//
//go:embed events.json
var eventsSchema string
