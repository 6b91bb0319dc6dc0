package conformance

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// Fuzz reads any bytes as a reply. An error is one of a model, a whole reply can go back,
// and equal bytes give equal replies.
func Fuzz(f *testing.F, samples []Sample, reply func([]byte) (session.Reply, error)) {
	for _, s := range samples {
		f.Add([]byte(s.Stream))
		f.Add([]byte(s.Whole))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := reply(raw)
		if err != nil && !errors.Is(err, session.ErrModel) && !errors.Is(err, session.ErrLimit) {
			t.Errorf("Reply: got the error %v", err)
		}
		if got.Whole && err != nil || !got.Whole && got.Native != nil {
			t.Errorf("Reply: got %+v with %v", got, err)
		}
		if got.Native != nil && !json.Valid(got.Native) {
			t.Errorf("the message to send back is no JSON: %s", got.Native)
		}
		for i, c := range got.Calls {
			if c.Number != i+1 {
				t.Errorf("call %d has the number %d", i+1, c.Number)
			}
		}
		again, _ := reply(raw) // its error is that of the first one
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("the same bytes give another reply:\n%s", diff)
		}
	})
}
