package plan

import _ "embed" // for the schema

//go:embed schema.json
var schema string

// Schema returns the JSON Schema (draft 2020-12) of the plan file, for editors and for
// people. It cannot express rules between values, such as unique ids and existing
// dependencies.
func Schema() []byte { return []byte(schema) }
