package plan

import _ "embed" // for the schema

//go:embed schema.json
var schema string

// Schema gives the JSON Schema (draft 2020-12) of the plan file, for editors and for
// people. It says nothing about what one value means for another: ids that are unique,
// dependencies that exist.
func Schema() []byte { return []byte(schema) }
