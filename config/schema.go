package config

import _ "embed" // for the schema

// A test generates the schema from the table of keys, so that no program contains the
// generator.
//
//go:embed schema.json
var schema string

// Schema returns the JSON Schema of a configuration file, for editors.
func Schema() []byte { return []byte(schema) }
