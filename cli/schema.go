package cli

import _ "embed" // for the schema

// eventsSchema describes the payload of each type of event. A test makes it from the
// types, so that the program does not carry what makes it.
//
//go:embed events.json
var eventsSchema string
