package local

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// redact masks secrets in raw, the JSON of data, but not where the payload type says redact:"-". A
// password may well be the name of a directory or a word of acode's own, and what is found again by
// its name would not be found by a masked one.
func (s *Store) redact(data any, raw []byte) ([]byte, error) {
	if s.opts.Redactor == nil {
		return raw, nil
	}
	redacted := s.opts.Redactor.JSON(raw)
	if bytes.Equal(redacted, raw) {
		return raw, nil
	}
	was := reflect.ValueOf(data)
	now := reflect.New(was.Type())
	if err := json.Unmarshal(redacted, now.Interface()); err != nil {
		return nil, err
	}
	keepNames(now.Elem(), was)
	return json.Marshal(now.Interface())
}

// keepNames sets what has the tag in to, a copy of from that was redacted, to what it was.
func keepNames(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			if from.Type().Field(i).Tag.Get("redact") == "-" {
				to.Field(i).Set(from.Field(i))
				continue
			}
			keepNames(to.Field(i), from.Field(i))
		}
	case reflect.Slice:
		for i := range from.Len() {
			keepNames(to.Index(i), from.Index(i))
		}
	case reflect.Pointer:
		if !from.IsNil() {
			keepNames(to.Elem(), from.Elem())
		}
	}
}
