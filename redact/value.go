package redact

import (
	"log/slog"
	"reflect"
)

// Value returns a copy of v with its texts masked, in structs, lists and maps too. A
// field with the tag redact:"-" stays as it is. A text in a map is masked as a whole if
// its name tells of a secret.
func (r *Redactor) Value(v any) any { return Texts(v, r.under) }

// Texts returns a copy of v in which each text is replaced by mask(name, text). It
// replaces the texts of structs, lists and maps and the names in maps, but not fields
// with the tag redact:"-". name is the text's name in a map, and empty elsewhere.
func Texts(v any, mask func(name, text string) string) any {
	if v == nil {
		return nil
	}
	return made(reflect.ValueOf(v), "", mask).Interface()
}

func made(v reflect.Value, name string, mask func(name, text string) string) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch kind := v.Kind(); {
	case kind == reflect.String:
		out.SetString(mask(name, v.String()))
	case kind == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("redact") != "-" {
				out.Field(i).Set(made(v.Field(i), "", mask))
			}
		}
	case kind == reflect.Slice && !v.IsNil():
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(made(v.Index(i), name, mask))
		}
	case kind == reflect.Pointer && !v.IsNil():
		out.Set(reflect.New(v.Type().Elem()))
		out.Elem().Set(made(v.Elem(), name, mask))
	case kind == reflect.Interface && !v.IsNil():
		out.Set(made(v.Elem(), name, mask))
	case kind == reflect.Map && !v.IsNil():
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for k, e := range v.Seq2() {
			out.SetMapIndex(made(k, "", mask), made(e, k.String(), mask))
		}
	}
	return out
}

// under masks the text that has this name. It masks the whole text if the name tells of
// a secret.
func (r *Redactor) under(name, text string) string {
	b := []byte(text)
	if secretName([]byte(name)) && len(b) >= MinSecretBytes && !notSecret(b) {
		whole := span{from: 0, to: len(b), tail: true}
		for _, s := range spans(r.known(), b) {
			whole.tail = whole.tail && s.tail
		}
		masked, _ := mask(b, []span{whole})
		text = string(masked)
	}
	return r.String(text)
}

// Attr masks the texts of a log, for slog.HandlerOptions.ReplaceAttr.
func (r *Redactor) Attr(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(r.under(a.Key, v))
	case error:
		a.Value = slog.StringValue(r.String(v.Error()))
	default:
		if a.Value.Kind() == slog.KindAny {
			a.Value = slog.AnyValue(r.Value(v))
		}
	}
	return a
}
