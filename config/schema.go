package config

import _ "embed" // for the schema

// It is made from the table of keys by a test, so that no program carries what makes it.
//
//go:embed schema.json
var schema string

// Schema returns the JSON Schema of a configuration file, for editors.
func Schema() []byte { return []byte(schema) }
