package redact_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/acode-dev/acode/redact"
)

// streamed returns text as masked by a Stream that gets it in the pieces that cut
// chooses.
func streamed(t fataler, r *redact.Redactor, text string, cut func(left int) int) string {
	var out bytes.Buffer
	s := r.Stream(&out)
	for len(text) > 0 {
		n := cut(len(text))
		if _, err := s.Write([]byte(text[:n])); err != nil {
			t.Fatalf("Write: %v", err)
		}
		text = text[n:]
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return out.String()
}

type fataler interface{ Fatalf(string, ...any) }

// D4.
func TestStreamOfAnySplit(t *testing.T) {
	lines := []string{"two\nlines-of-secret", "{\n \"private\": 1}", "a\nb\nc\nd\ne\nf", "ends-with-line\n", "1234567\n8901234"}
	rapid.Check(t, func(t *rapid.T) {
		r, _, text := drawCase(t)
		r.Learn(lines)
		for _, part := range rapid.SliceOfN(rapid.SampledFrom(append(lines, "two\n", "{\n", "a\n", "-----BEGIN PRIVATE KEY-----\n",
			"MIIEabcdefghijklmnop\n", "Proc-Type: 4\n", "-----END PRIVATE KEY-----\n", "x\n", "123456")), 0, 12).Draw(t, "more") {
			text += part
		}
		got := streamed(t, r, text, func(left int) int { return rapid.IntRange(1, left).Draw(t, "n") })
		if want := r.String(text); got != want {
			t.Fatalf("Stream of %q: got %q, want %q", text, got, want)
		}
	})
}

// A secret in two reads is masked, and a line is passed on as soon as it is complete.
func TestStreamOfASecretInTwoWrites(t *testing.T) {
	r := redact.New([]string{"hunter2hunter2", "first-line\nsecond-line"})
	var out strings.Builder
	s := r.Stream(&out)
	for _, step := range []struct{ in, want string }{
		{"a line\n", "a line\n"}, {"x hunter2", "a line\n"}, {"hunter2 y\n", "a line\nx ***ter2 y\n"},
		{"first-line\n", "a line\nx ***ter2 y\n"}, {"second-line\n", "a line\nx ***ter2 y\n***line\n"}, {"end", "a line\nx ***ter2 y\n***line\n"},
	} {
		if _, err := s.Write([]byte(step.in)); err != nil || out.String() != step.want {
			t.Fatalf("Write of %q: got %q, %v, want %q", step.in, out.String(), err, step.want)
		}
	}
	if err := s.Close(); err != nil || !strings.HasSuffix(out.String(), "\nend") {
		t.Errorf("Close: got %q, %v", out.String(), err)
	}
	got, err := io.ReadAll(r.Reader(iotest.OneByteReader(strings.NewReader("x hunter2hunter2 y\nend"))))
	if err != nil || string(got) != "x ***ter2 y\nend" {
		t.Errorf("Reader: got %q, %v", got, err)
	}
	broken := errors.New("broken")
	if _, err := io.ReadAll(r.Reader(io.MultiReader(strings.NewReader("x\n"), iotest.ErrReader(broken)))); !errors.Is(err, broken) {
		t.Errorf("Reader: got %v, want the error of the underlying reader", err)
	}
}

// A line without an end is cut at a place without a secret, and its memory has a limit.
func TestStreamOfOneLongLine(t *testing.T) {
	long := strings.Repeat("long-secret-", 11<<9)
	r := redact.New([]string{"hunter2hunter2", long})
	const unit = "0123456789 hunter2hunter2, "
	for name, text := range map[string]string{
		"secrets_everywhere": strings.Repeat(unit, 300<<10/len(unit)),
		"no_blank":           strings.Repeat("x", 300<<10),
		"binary":             strings.Repeat("\x00\xff\r", 100<<10),
		"long_secret":        strings.Repeat("y", 225<<10) + long + strings.Repeat("z", 50<<10),
		"value_without_end":  "password=" + strings.Repeat("secret", 50<<10) + "\nnext",
		"value_of_letters":   "password=" + strings.Repeat("ħéx", 60<<10) + "'next",
		"key_without_end":    "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("MIIEabcdefghijklmnop\n", 1<<12) + ".",
	} {
		want := r.String(text)
		for _, size := range []int{4097, 1 << 20} {
			if got := streamed(t, r, text, func(left int) int { return min(left, size) }); got != want {
				t.Errorf("%s in pieces of %d: got %d bytes, String gives %d", name, size, len(got), len(want))
			}
		}
		for _, secret := range []string{"hunter2", "long-secret-", "secretsecret"} {
			if strings.Contains(want, secret) {
				t.Errorf("%s: the result shows %q", name, secret)
			}
		}
	}
	if got := r.String("password=" + strings.Repeat("secret", 50<<10) + " next"); got != "password=*** next" {
		t.Errorf("String: got %.100q", got)
	}
}

// If a piece of a text is missing, the cut may be inside a secret. Neither half of the
// secret is passed on, but the rest of the text is.
func TestStreamOfAGap(t *testing.T) {
	const secret, note = "s3cr3t-0123456789-abcdefghijklmnop", "\n[a piece is missing]\n"
	r := redact.New([]string{secret})
	for name, unit := range map[string]string{"lines": secret + " x\n", "one_line": secret + " x,"} {
		for half := 0; half < len(unit); half += 3 {
			before := strings.Repeat(unit, 3000) + unit[:half]
			text := before + note + unit[half:] + strings.Repeat(unit, 3000)
			gaps := []redact.Gap{{At: int64(len(before)), Size: int64(len(note))}}
			got, err := io.ReadAll(r.Reader(&gapped{strings.NewReader(text), gaps}))
			if err != nil {
				t.Fatal(err)
			}
			var streamed bytes.Buffer
			s := r.Stream(&streamed)
			if n, err := s.ReadFrom(&gapped{strings.NewReader(text), gaps}); err != nil || n != int64(len(text)) || s.Close() != nil {
				t.Fatalf("ReadFrom: %d of %d bytes, %v", n, len(text), err)
			}
			if streamed.String() != string(got) {
				t.Fatalf("%s: a Stream and a Reader give different texts", name)
			}
			left := strings.NewReplacer("***mnop", "", note, "").Replace(string(got))
			if strings.Trim(left, " x,\n*mnop") != "" || strings.Count(string(got), note) != 1 || strings.Count(string(got), "***mnop") < 1000 {
				t.Fatalf("%s cut at %d: %d bytes are left, with %.80q", name, half, len(got), left)
			}
		}
	}
}

type gapped struct {
	io.Reader
	gaps []redact.Gap
}

func (g *gapped) Gaps() []redact.Gap { return g.gaps }

func TestStreamsMemory(t *testing.T) {
	r := redact.New([]string{"hunter2hunter2"})
	const size, most = 3 << 20, 2 << 20
	_, _ = io.Copy(io.Discard, r.Reader(io.LimitReader(endless("x"), 1<<20))) // allocated once for all readers
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	from := r.Reader(io.LimitReader(endless("no line end here, "), size))
	peak := uint64(0)
	for buf := make([]byte, 128<<10); ; {
		_, err := from.Read(buf)
		runtime.GC() // only memory that is still in use counts
		runtime.ReadMemStats(&after)
		peak = max(peak, after.HeapAlloc-min(after.HeapAlloc, before.HeapAlloc))
		if err != nil {
			break
		}
	}
	if peak > most {
		t.Errorf("Reader of %d MiB: %d KiB of memory", size>>20, peak>>10)
	}
	t.Logf("%d KiB of memory", peak>>10)
}

type endless string

func (e endless) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		n += copy(p[n:], e)
	}
	return len(p), nil
}

// D5: a process knows the secrets that another one learnt, without their values.
func TestMemory(t *testing.T) {
	key, other := bytes.Repeat([]byte{7}, 32), bytes.Repeat([]byte{8}, 32)
	secrets := []string{planted, "exactly8", "two\nlines-of-secret", "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("Ab3+", 16) + "\n-----END PRIVATE KEY-----\n"}
	knows := redact.New(secrets)
	memory := knows.Memory(key)
	for _, s := range append(secrets, "exactly", "lines-of", "Ab3+") {
		if bytes.Contains(memory, []byte(s)) {
			t.Errorf("Memory shows %q", s)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(append(fragments(secrets), "exactly", "8", " or longer")), 0, 14).Draw(t, "parts"), "")
		later := redact.New([]string{"another-secret"})
		if err := later.Remember(key, memory); err != nil {
			t.Fatalf("Remember: %v", err)
		}
		if got, want := later.String(text), knows.String(text); got != want {
			t.Fatalf("String(%q): got %q, want %q", text, got, want)
		}
		if both := redact.New(append(secrets, "another-secret")).Memory(key); !bytes.Equal(later.Memory(key), both) {
			t.Fatalf("Memory: %d bytes, of a process that knows all %d", len(later.Memory(key)), len(both))
		}
	})
	later := redact.New(nil)
	if err := later.Remember(other, memory); err != nil || later.String(planted) != planted {
		t.Errorf("Remember with another key: %v, and it knows the secret", err)
	}
	if err := later.Remember(key, memory[1:]); err == nil {
		t.Error("Remember of bytes that are cut off: no error")
	}
	if got := redact.New(nil).Memory(key); len(got) != 0 {
		t.Errorf("Memory of nothing: %d bytes", len(got))
	}
}
