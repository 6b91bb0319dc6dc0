package config

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// MakeSchema generates the JSON Schema of a configuration file from the table of keys.
func MakeSchema() []byte {
	root := object("Configuration of acode")
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	for _, k := range keys() {
		at := root
		section, name, nested := strings.Cut(k.path, ".")
		if nested {
			if root.Properties[section] == nil {
				root.Properties[section] = object("")
				root.PropertyOrder = append(root.PropertyOrder, section)
			}
			at = root.Properties[section]
		} else {
			name = section
		}
		at.Properties[name] = k.schema()
		at.PropertyOrder = append(at.PropertyOrder, name)
	}
	root.Properties[modelsKey] = modelsSchema()
	root.PropertyOrder = append(root.PropertyOrder, modelsKey)
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: the schema of the key table cannot be encoded: " + err.Error())
	}
	return append(out, '\n')
}

// modelsSchema returns the schema of the models, whose names are the user's.
func modelsSchema() *jsonschema.Schema {
	m := object("")
	m.Required = []string{"provider"}
	least, most := 1.0, 1e9
	for _, k := range modelKeys() {
		s := &jsonschema.Schema{Type: "string"}
		switch k.name {
		case "provider":
			for _, v := range providers() {
				s.Enum = append(s.Enum, v)
			}
		case "script", "log":
			s.Pattern = `^(/|~/|~$)`
		case "base_url":
			s.Pattern = `^https?://`
		case "proxy":
			s.Pattern = `^(https?|socks5)://`
		case "api_key_env":
			s.Pattern = `^[A-Za-z_][A-Za-z0-9_]*$`
		case "context_tokens", "max_output_tokens":
			s.Type, s.Minimum, s.Maximum = "integer", &least, &most
		case "timeout":
			s.Pattern = `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
		case "price":
			s = object("")
			s.Required = []string{"input", "output"}
			for _, name := range []string{"input", "output", "cached"} {
				s.Properties[name] = &jsonschema.Schema{Types: []string{"number", "string"}, Pattern: `^[0-9]{1,9}(\.[0-9]{1,6})?$`}
				s.PropertyOrder = append(s.PropertyOrder, name)
			}
		}
		s.Description = k.doc
		m.Properties[k.name], m.PropertyOrder = s, append(m.PropertyOrder, k.name)
	}
	for _, p := range providers() {
		m.AllOf = append(m.AllOf, ofProvider(p))
	}
	return &jsonschema.Schema{Type: "object", Description: "The models by name. Not in a project's file.", AdditionalProperties: m,
		PropertyNames: &jsonschema.Schema{Pattern: `^[A-Za-z0-9._-]{1,64}$`, Not: &jsonschema.Schema{Enum: []any{".", ".."}}}}
}

// ofProvider returns the keys that a model of a provider needs.
func ofProvider(provider string) *jsonschema.Schema {
	then := &jsonschema.Schema{}
	for _, k := range modelKeys() {
		if slices.Contains(k.needs, provider) {
			then.Required = append(then.Required, k.name)
		}
	}
	is := jsonschema.Ptr[any](provider)
	return &jsonschema.Schema{If: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"provider": {Const: is}}}, Then: then}
}

// object returns the schema of a mapping that allows no other keys than its properties.
func object(title string) *jsonschema.Schema {
	return &jsonschema.Schema{Title: title, Type: "object", Properties: map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
}

func (k key) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Description: k.doc}
	if !k.project {
		s.Description += " Not in a project's file."
	}
	low, high := float64(k.min), float64(k.max)
	switch k.kind {
	case kindEnum:
		s.Type = "string"
		for _, v := range k.values {
			s.Enum = append(s.Enum, v)
		}
	case kindBool:
		s.Type = "boolean"
	case kindCount:
		s.Type, s.Minimum, s.Maximum = "integer", &low, &high
	case kindBytes:
		s.Types, s.Minimum, s.Maximum = []string{"integer", "string"}, &low, &high
		s.Pattern = `^[0-9]+ ?([KMG]i?B)?$`
	case kindDuration:
		s.Type, s.Pattern = "string", `^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
	case kindPath:
		s.Type, s.Pattern = "string", `^(/|~/|~$)`
	case kindServer:
		s.Type, s.Pattern = "string", `^$|^postgres(ql)?://`
	case kindName:
		s.Type, s.Pattern = "string", `^[A-Za-z0-9._-]{0,64}$`
	case kindLimit:
		s.Types, s.Minimum, s.Pattern = []string{"integer", "string"}, new(1.0), `^(none|[1-9][0-9]{0,17})$`
	case kindMoney:
		s.Types, s.Minimum, s.Pattern = []string{"number", "string"}, new(1e-6), `^(none|[1-9][0-9]{0,8}(\.[0-9]{1,6})?|0\.[0-9]{1,6})$`
	case kindListen:
		s.Type, s.Pattern = "string", `^(unix:/.+|.+:[0-9]+)$`
	case kindPaths:
		s.Type, s.Items = "array", &jsonschema.Schema{Type: "string", Pattern: `^(/|~/|~$)`}
	}
	s.Default = k.defaultJSON()
	return s
}

// defaultJSON returns the default in the type of the key, or nil if the default depends
// on the machine.
func (k key) defaultJSON() json.RawMessage {
	switch k.kind {
	case kindLimit, kindMoney:
		if k.def == none {
			return json.RawMessage(strconv.Quote(none))
		}
		return json.RawMessage(k.def)
	case kindBool, kindCount, kindBytes:
		return json.RawMessage(k.def)
	case kindEnum, kindDuration, kindListen:
		return json.RawMessage(strconv.Quote(k.def))
	case kindPaths:
		return json.RawMessage("[]")
	}
	return nil
}
