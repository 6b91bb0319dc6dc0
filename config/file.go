package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/strictyaml"
)

// file reads one layer of YAML.
type file struct {
	strictyaml.Reader
	loader *loader
	layer  layer
}

func format() strictyaml.Format {
	return strictyaml.Format{Code: session.ErrConfig, Name: "configuration", Bytes: maxFileBytes, Mask: hidePasswords,
		Next: session.Then("correct the file; to check it", session.MoveCheckConfig, ""), Split: "remove everything that is not a setting", Path: "replace it by a readable file, or remove it"}
}

// file reads one layer from a YAML file (F2). Nil data means that there is no file.
func (l *loader) file(in layer, name string, data []byte) error {
	if data == nil {
		return nil
	}
	f := &file{Reader: strictyaml.Reader{Format: format(), Name: cmp.Or(name, "configuration")}, loader: l, layer: in}
	if root := f.Root(data); root != nil {
		f.section(root, "")
	}
	return f.Err()
}

func (f *file) section(v *strictyaml.Value, prefix string) {
	if v.Kind() == strictyaml.Nothing {
		return
	}
	for _, entry := range f.Object(v).Fields {
		f.entry(prefix+entry.Key, &entry)
	}
}

// entry reads one key, which is a setting or a section of several settings.
func (f *file) entry(path string, v *strictyaml.Value) {
	k, isKey := f.loader.key(path)
	isSection := len(f.loader.names(path+".", layerUser)) > 0
	switch {
	case path == modelsKey:
		f.models(v)
	case !isKey && !isSection:
		f.unknown(path, v)
	case f.layer == layerProject && !k.project && len(f.loader.names(path+".", layerProject)) == 0:
		f.Fail(v.KeyAt, "remove it here and set it in your own file, in the environment or with a flag", "a project's file cannot set %s, only resume keys", path)
	case isSection:
		f.section(v, path+".")
	case v.Kind() == strictyaml.Nothing:
		f.Fail(v.At, "", "%s has no value; it must be %s", path, k.wants())
	case f.loader.set[path].layer == f.layer: // The key may stand once as log.level and once below log.
		f.Fail(v.KeyAt, "remove one of the two", "%s is set twice", path)
	default:
		f.loader.put(k, f.value(k, v), f.origin(v), f.layer)
	}
}

// origin names the place of a setting.
func (f *file) origin(v *strictyaml.Value) string { return fmt.Sprintf("%s:%d", f.Name, v.KeyAt.Line) }

func (f *file) unknown(path string, v *strictyaml.Value) {
	at := strings.LastIndexByte(path, '.') + 1
	names := f.loader.names(path[:at], f.layer)
	guess := ""
	if near := nearest(path[at:], names); near != "" {
		guess = "; did you mean " + path[:at] + near + "?"
	}
	f.Fail(v.KeyAt, "known here: "+strings.Join(names, ", "), "unknown key %q%s", path, guess)
}

// names returns the names that may follow prefix in a file of a layer.
func (l *loader) names(prefix string, in layer) []string {
	var names []string
	for _, k := range l.keys {
		rest, ok := strings.CutPrefix(k.path, prefix)
		name, _, _ := strings.Cut(rest, ".")
		if ok && (in != layerProject || k.project) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if prefix == "" && in != layerProject {
		names = append(names, modelsKey)
	}
	return names
}

// value reads the value of a key. Its type must fit: quoted text is not a number.
func (f *file) value(k key, v *strictyaml.Value) parsed {
	if k.kind == kindPaths && v.Kind() == strictyaml.List {
		var texts []string
		for _, entry := range v.Entries("") {
			if f.suits(k, entry, entry.Kind() == strictyaml.Text) {
				_, err := k.parsePaths([]string{entry.Written()}, f.loader.home)
				f.wrong(k, entry, err)
			}
			texts = append(texts, entry.Written())
		}
		all, _ := k.parsePaths(texts, f.loader.home) // The loop has reported each error.
		return all
	}
	if !f.suits(k, v, suits(k.kind, v)) {
		return parsed{}
	}
	out, err := k.parse(v.Written(), f.loader.home)
	f.wrong(k, v, err)
	return out
}

// suits reports whether the type of v fits the kind.
func suits(want kind, v *strictyaml.Value) bool {
	switch v.Kind() {
	case strictyaml.Text:
		return slices.Contains([]kind{kindEnum, kindBytes, kindDuration, kindServer, kindListen, kindName, kindLimit, kindMoney}, want) || want == kindPath && v.Written() != ""
	case strictyaml.Bool:
		return want == kindBool
	case strictyaml.Float:
		return want == kindMoney
	case strictyaml.Int:
		return want == kindCount || want == kindBytes || want == kindLimit || want == kindMoney
	}
	return false
}

func (f *file) suits(k key, v *strictyaml.Value, ok bool) bool {
	if !ok {
		f.wrong(k, v, fmt.Errorf("must be %s, not %s", k.wants(), v.Describe()))
	}
	return ok
}

func (f *file) wrong(k key, v *strictyaml.Value, err error) {
	if err != nil {
		f.Fail(v.At, "", "%s %v", k.path, err)
	}
}
