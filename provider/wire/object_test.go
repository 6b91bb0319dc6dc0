package wire_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/provider/wire"
)

// An object keeps the order of its fields and the bytes of their values.
func TestObject(t *testing.T) {
	const text = ` {"b" : 1.50, "\u0061": {"x": [ "}\"" , true]},"c":null,"d":"",  "e":[]} `
	o, err := wire.ReadObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"b":1.50,"a":{"x": [ "}\"" , true]},"c":null,"d":"","e":[]}`, string(o.Bytes())); diff != "" {
		t.Errorf("Bytes (-want +got):\n%s", diff)
	}
	for _, bad := range []string{``, `[]`, `1`, `{`, `{"a":1`, `{"a":1}x`, `{"a" 1}`, `null`, "{" + strings.Repeat(`"a":1,`, 1) + "}"} {
		if _, err := wire.ReadObject([]byte(bad)); err == nil {
			t.Errorf("ReadObject takes %s", bad)
		}
	}
	many := "{"
	for i := range 1001 {
		many += `"` + strings.Repeat("x", i) + `":1,`
	}
	if _, err := wire.ReadObject([]byte(strings.TrimSuffix(many, ",") + "}")); err == nil {
		t.Error("ReadObject takes 1001 fields")
	}
}

// ReadObject takes the objects that encoding/json takes, and finds the same fields.
func FuzzReadObject(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, ` { "a\"b" : "c\\" , "d":[{"e":"]}"}] } `, `{"a":1,"a":2}`, `{"\ud83d\ude00":-1.5e+9,"x":tru}`, `{"a":{"b":[]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want map[string]json.RawMessage
		bad := json.Unmarshal(raw, &want) != nil || want == nil
		o, err := wire.ReadObject(raw)
		if (err != nil) != bad {
			t.Fatalf("ReadObject of %q: got %v, and encoding/json refuses it: %t", raw, err, bad)
		}
		if bad || bytes.ContainsRune(raw, '\ufffd') || !bytes.Equal(raw, bytes.ToValidUTF8(raw, nil)) {
			return
		}
		if len(o.Names()) != len(want) {
			t.Fatalf("ReadObject of %q: got the fields %q", raw, o.Names())
		}
		for name, value := range want {
			if string(value) != "null" && !bytes.Equal(o.Get(name), value) {
				t.Errorf("%q of %q: got %s, want %s", name, raw, o.Get(name), value)
			}
		}
		var back map[string]any
		if err := json.Unmarshal(o.Bytes(), &back); err != nil || len(back) != len(want) {
			t.Errorf("Bytes of %q: got %s, %v", raw, o.Bytes(), err)
		}
	})
}

// A stream is the same with each kind of line end. Comments, unknown fields and events
// without data are no events, and an event without its end is left out.
func TestEvents(t *testing.T) {
	const text = "\ufeff: hello\nevent: a\ndata: one\ndata:two\nid: 7\n\n\n\ndata\n\nevent: b\n\ndata:  x \n\ndata: cut\n"
	want := []string{"one\ntwo", " x "}
	for _, end := range []string{"\n", "\r\n", "\r"} {
		var got []string
		for data := range wire.Events([]byte(strings.ReplaceAll(text, "\n", end))) {
			got = append(got, string(data))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("line end %q (-want +got):\n%s", end, diff)
		}
	}
}
