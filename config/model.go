package config

import (
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/strictyaml"
)

// Model configures a model.
type Model struct {
	// Provider is script.
	Provider string
	// Script is the absolute path of the script of a model that follows one.
	Script string
	// Log is the absolute path of a file that gets each request; empty for none.
	Log string
}

// modelsKey is the section of the models. Only the user's file may have it, because a
// project must not decide where the content of files goes.
const modelsKey = "models"

// providers are the valid values of provider.
func providers() []string { return []string{"script"} }

// models reads the section of the models.
func (f *file) models(v *strictyaml.Value) {
	if f.layer == layerProject {
		f.Fail(v.KeyAt, "remove it here and set it in your own file", "a project's file cannot set %s, only resume keys", modelsKey)
		return
	}
	for _, entry := range f.Object(v).Fields {
		if !session.ValidName(entry.Key) {
			f.Fail(entry.KeyAt, "", "%q is not a name of a model: 1 to 64 letters, digits, dots, underscores and hyphens", entry.Key)
		}
		o := f.Object(&entry, "provider", "script", "log")
		m := Model{Provider: f.OneOf(f.Need(o, "provider"), providers()...), Script: f.absolute(f.Need(o, "script")), Log: f.absolute(o.Get("log"))}
		if f.loader.models == nil {
			f.loader.models = map[string]Model{}
		}
		f.loader.models[entry.Key] = m
		for _, key := range o.Fields {
			f.loader.modelValues = append(f.loader.modelValues, Value{Key: modelsKey + "." + entry.Key + "." + key.Key, Value: key.Written(), Origin: f.origin(&key)})
		}
	}
}

// absolute reads an absolute path; empty for no value.
func (f *file) absolute(v *strictyaml.Value) string {
	if v == nil {
		return ""
	}
	path, ok := absolute(v.Written(), f.loader.home)
	if !ok || v.Kind() != strictyaml.Text {
		f.Fail(v.At, "", "%s must be an absolute path, not %q", v, v.Written())
	}
	return path
}
