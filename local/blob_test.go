package local_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

type opener interface {
	Open(ctx context.Context, hash string) (io.ReadCloser, error)
}

func content(t testing.TB, w opener, hash string) ([]byte, error) {
	t.Helper()
	r, err := w.Open(t.Context(), hash)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(7, uint64(n)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestStagedContentComesBack(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	for name, c := range map[string]struct {
		data   []byte
		sealed bool
	}{
		"empty":        {nil, false},
		"text":         {bytes.Repeat([]byte("hello\r\n"), 100), false},
		"noise":        {noise(1000), false},
		"secret":       {[]byte("password=" + secretWord), true},
		"largest":      {noise(64 << 10), false},
		"file":         {noise(64<<10 + 1), true},
		"chunk_edge":   {bytes.Repeat([]byte{0}, 64<<10*3), true},
		"several":      {noise(300_000), true},
		"compressible": {bytes.Repeat([]byte("abc"), 200_000), true},
	} {
		t.Run(name, func(t *testing.T) {
			ref, err := w.Stage(t.Context(), bytes.NewReader(c.data), int64(len(c.data)))
			if err != nil {
				t.Fatalf("Stage: %v", err)
			}
			sum := sha256.Sum256(c.data)
			plain := hex.EncodeToString(sum[:])
			if ref.Sealed != c.sealed || ref.Bytes != int64(len(c.data)) || (ref.Hash == plain) == c.sealed {
				t.Errorf("Stage: got %+v, want sealed %v", ref, c.sealed)
			}
			again, err := w.Stage(t.Context(), bytes.NewReader(c.data), int64(len(c.data)))
			if err != nil || again != ref {
				t.Errorf("Stage again: got %+v, %v", again, err)
			}
			for _, hash := range []string{ref.Hash, plain} {
				if got, err := content(t, w, hash); err != nil || !bytes.Equal(got, c.data) {
					t.Errorf("Open before Append: %d bytes, %v", len(got), err)
				}
			}
			appendAll(t, w)
			for _, hash := range []string{ref.Hash, plain} {
				if got, err := content(t, w, hash); err != nil || !bytes.Equal(got, c.data) {
					t.Errorf("Open after Append: %d bytes, %v", len(got), err)
				}
			}
		})
	}
	if r := verify(t, openRead(t, o)); len(r.Problems) != 0 || len(r.Unnamed) != 9 {
		t.Errorf("Verify: problems %v, %d unnamed", r.Problems, len(r.Unnamed))
	}
}

// The store contains no byte of a secret, from any source, requests included.
func TestSecretsDoNotReachTheDisk(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 2)
	id := w.Session().ID
	if _, err := w.Stage(t.Context(), strings.NewReader(secretWord), int64(len(secretWord))); err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat(secretWord+" ", 10_000)
	if _, err := w.Stage(t.Context(), strings.NewReader(big), int64(len(big))); err != nil {
		t.Fatal(err)
	}
	appendAll(t, w, started(w, 0, 1))
	fail := failed(w, 0, 1)
	data := fail.Data.(session.StepFailedData)
	data.Message = "exit 1: " + secretWord
	fail.Data = data
	appendAll(t, w, fail)
	if err := s.Ask(t.Context(), session.Request{Session: id, Kind: session.RequestDeny, Step: stepID(1), Reason: secretWord, By: "me"}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(o.Home, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(secretWord)) {
			t.Errorf("%s: holds the secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Redacted text of any length is delivered. Whole outputs are listed apart.
func TestMaskedContentIsDelivered(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	long := bytes.Repeat([]byte("a line of an output\n"), 10_000)
	ends, err := w.StageMasked(t.Context(), bytes.NewReader(long[:100_000]), 100_000)
	must(t, err)
	whole, err := w.StageMasked(t.Context(), bytes.NewReader(long), -1)
	must(t, err)
	short, err := w.StageMasked(t.Context(), strings.NewReader("password="+secretWord), int64(len("password="+secretWord)))
	must(t, err)
	if sum := sha256.Sum256(long); ends.Sealed || whole != (session.BlobRef{Hash: hex.EncodeToString(sum[:]), Bytes: int64(len(long))}) || !short.Sealed {
		t.Errorf("StageMasked: got %+v, %+v and %+v", ends, whole, short)
	}
	done := completed(w, 0, 1)
	data := done.Data.(session.StepCompletedData)
	data.Matches = nil
	data.Command = &session.CommandResult{Stdout: session.Output{Blob: ends, Bytes: whole.Bytes, Cut: true, Whole: whole}, Stderr: session.Output{Blob: short}}
	done.Data = data
	appendAll(t, w, session.Draft{Type: session.StepStarted, Data: session.StepStartedData{StepID: stepID(0), Kind: session.KindRun, Key: key(w, 0, 1), Attempt: 1}}, done)
	ob := openOutbox(t, s)
	d, err := ob.Delivery(t.Context(), w.Session().ID, 0, 100, 1<<20)
	must(t, err)
	if refs := ob.Blobs(d); len(refs) != 2 || refs[1] != ends {
		t.Errorf("Blobs: got %+v, want the plan and %+v", refs, ends)
	}
	if refs := ob.Wholes(d); len(refs) != 1 || refs[0] != whole {
		t.Errorf("Wholes: got %+v, want %+v", refs, whole)
	}
	r, err := ob.Blob(t.Context(), whole.Hash)
	must(t, err)
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, long) || r.Close() != nil {
		t.Errorf("Blob: %d bytes, %v", len(got), err)
	}
	if r := verify(t, s); len(r.Problems) != 0 || len(r.Unnamed) != 0 {
		t.Errorf("Verify: %+v", r)
	}
	path := filepath.Join(o.Home, "blobs", whole.Hash+".zst")
	good, err := os.ReadFile(path)
	must(t, err)
	for name, bad := range map[string][]byte{"body": flip(good, len(good)/2), "short": good[:len(good)-5], "empty": {}, "longer": append(bytes.Clone(good), 1)} {
		must(t, os.WriteFile(path, bad, 0o600))
		if _, err := content(t, w, whole.Hash); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%s: got %v", name, err)
		}
		if r := verify(t, s); len(r.Problems) == 0 {
			t.Errorf("%s: Verify found nothing", name)
		}
	}
}

// Masking, compressing and storing 16 MiB of output uses a bounded amount of memory: for
// many lines, for one line, and for text full of secrets.
func TestMaskedContentsMemory(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 1)
	r := redact.New([]string{"hunter2hunter2"})
	for name, unit := range map[string]string{"lines": "a line of an output\n", "one_line": "no line end here, ", "secrets": "hunter2hunter2 and\nhunter2hunter2;"} {
		runtime.GC()
		from := &watched{text: []byte(strings.Repeat(unit, 64<<10/len(unit))), left: 16 << 20}
		runtime.ReadMemStats(&from.before)
		ref, err := w.StageMasked(t.Context(), r.Reader(from), -1)
		if err != nil || ref.Bytes < 4<<20 {
			t.Errorf("%s: %d bytes, %v", name, ref.Bytes, err)
		}
		t.Logf("%s: %d KiB of memory", name, from.peak>>10)
		if from.peak > 32_000_000 {
			t.Errorf("%s: 16 MiB of output took %d KiB of memory", name, from.peak>>10)
		}
	}
}

// watched repeats a text, and measures the memory of the reader.
type watched struct {
	text   []byte
	left   int
	before runtime.MemStats
	peak   uint64
}

func (f *watched) Read(p []byte) (int, error) {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	f.peak = max(f.peak, now.HeapAlloc-min(now.HeapAlloc, f.before.HeapAlloc))
	n := copy(p[:min(len(p), f.left)], f.text)
	if f.left -= n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func TestDamagedBlobsAreNamed(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	data := noise(200_000)
	ref, err := w.Stage(t.Context(), bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(o.Home, "blobs", ref.Hash+".sealed")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	chunk := 64<<10 + 16
	for name, bad := range map[string][]byte{
		"header": flip(good, 3), "key_id": flip(good, 9), "salt": flip(good, 20), "body": flip(good, 100_000), "end": flip(good, len(good)-1),
		"short": good[:len(good)-5], "chunk_dropped": good[:32+chunk], "only_header": good[:32], "empty": {},
		"longer": append(append([]byte(nil), good...), 1),
	} {
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := content(t, w, ref.Hash); !errors.Is(err, session.ErrCorrupt) && !errors.Is(err, session.ErrKey) {
			t.Errorf("%s: got %v", name, err)
		}
		if r := verify(t, openRead(t, o)); len(r.Problems) == 0 {
			t.Errorf("%s: Verify found nothing", name)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := content(t, w, ref.Hash); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("removed: got %v", err)
	}
	if _, err := content(t, w, "zz"); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("no hash: got %v", err)
	}
	if _, err := w.Stage(t.Context(), strings.NewReader("abc"), 2); !errors.Is(err, session.ErrFileChanged) {
		t.Errorf("Stage of a grown file: got %v", err)
	}
	if _, err := w.Stage(t.Context(), bytes.NewReader(data), 1<<20); !errors.Is(err, session.ErrFileChanged) {
		t.Errorf("Stage of a shrunk file: got %v", err)
	}
}

// Sealed content opens only with its key, and without it the error is ErrKey. Other
// content needs no key.
func TestSealedContentNeedsItsKey(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	stage := func(data []byte) string {
		ref, err := w.Stage(t.Context(), bytes.NewReader(data), int64(len(data)))
		must(t, err)
		return ref.Hash
	}
	small, large, plain := stage([]byte(secretWord)), stage(noise(100_000)), stage([]byte("no secret"))
	appendAll(t, w)
	must(t, errors.Join(w.Close(), s.Close()))
	keyless := openRead(t, o)
	must(t, os.Remove(filepath.Join(o.Home, "key")))

	another := options(t)
	other := open(t, another)
	must(t, other.Exec(t.Context(), `ATTACH DATABASE ? AS theirs`, filepath.Join(o.Home, "acode.db")))
	must(t, other.Exec(t.Context(), `INSERT INTO main.blobs SELECT * FROM theirs.blobs`))
	must(t, os.CopyFS(filepath.Join(another.Home, "blobs"), os.DirFS(filepath.Join(o.Home, "blobs"))))
	for name, s := range map[string]*local.Store{"without_a_key": keyless, "with_another_key": other} {
		for _, hash := range []string{small, large} {
			if got, err := content(t, storeOpener{s}, hash); !errors.Is(err, session.ErrKey) {
				t.Errorf("%s: OpenBlob of sealed content: got %d bytes, %v, want %v", name, len(got), err, session.ErrKey)
			}
		}
		if got, err := content(t, storeOpener{s}, plain); err != nil || string(got) != "no secret" {
			t.Errorf("%s: OpenBlob of plain content: got %q, %v", name, got, err)
		}
	}
}

// storeOpener opens blobs through a store instead of a writer.
type storeOpener struct{ *local.Store }

func (s storeOpener) Open(ctx context.Context, hash string) (io.ReadCloser, error) {
	return s.OpenBlob(ctx, hash)
}

func flip(b []byte, at int) []byte {
	c := append([]byte(nil), b...)
	c[at] ^= 1
	return c
}

// A payload above the journal's limit goes to a blob, and every reader still gets all of
// it.
func TestLargePayloadsLiveInBlobs(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	for i, n := range []int{200, 2000} {
		var files []session.FileState
		for j := range n {
			files = append(files, session.FileState{Path: strings.Repeat("p", 90) + string(rune('a'+j%26)) + stepName(j), Hash: "h", Size: int64(j)})
		}
		e := appendAll(t, w, started(w, i, 1), completed(w, i, 1, files...))[1]
		if len(e.Payload) > 200 || len(e.Full) < session.MaxPayloadBytes {
			t.Errorf("Append: payload of %d and %d bytes", len(e.Payload), len(e.Full))
		}
		got, err := w.Event(t.Context(), e.Seq)
		if err != nil || !bytes.Equal(got.Full, e.Full) {
			t.Errorf("Event: %d bytes of %d, %v", len(got.Full), len(e.Full), err)
		}
		if again := appendAll(t, w, completed(w, i, 1, files...))[0]; again.Hash != e.Hash {
			t.Errorf("Append again: event %d, want %d", again.Seq, e.Seq)
		}
	}
	id, seq := w.Session().ID, w.Session().LastSeq
	blobs := filepath.Join(o.Home, "blobs")
	must(t, os.Rename(blobs, blobs+".away"))
	more := session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{Why: strings.Repeat("x", 100_000)}}
	if es, err := w.Append(t.Context(), more); !errors.Is(err, session.ErrStoreIO) || w.Session().LastSeq != seq {
		t.Errorf("Append without a place for its payload: got %d events, %v", len(es), err)
	}
	must(t, os.Rename(blobs+".away", blobs))
	if err := errors.Join(w.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if got := load(t, openRead(t, o), id).Session(); len(got.Files) != 2000 {
		t.Errorf("Load: %d files, want 2000", len(got.Files))
	}
	if r := verify(t, openRead(t, o)); len(r.Problems) != 0 || len(r.Unnamed) != 0 {
		t.Errorf("Verify: %v, unnamed %v", r.Problems, r.Unnamed)
	}
}

var _ opener = (*local.Writer)(nil)

// Redaction does not change names that acode looks up later, or texts of acode itself,
// even if they equal a user's password.
func TestNamesAreNoSecrets(t *testing.T) {
	for _, word := range []string{"/ws", "t", "step-00000", "executing", "write", "absent", "a/postgres"} {
		t.Run(word, func(t *testing.T) {
			o := options(t)
			o.Redactor = quoted(word)
			s := open(t, o)
			w := create(t, s, 2)
			start := started(w, 0, 1)
			data := start.Data.(session.StepStartedData)
			data.Files = []session.Transition{{Path: "a/postgres", Pre: session.Image{Kind: "file"}, Post: session.Image{Kind: "absent"}}}
			start.Data = data
			made := appendAll(t, w, start, completed(w, 0, 1, session.FileState{Path: "a/postgres"}), started(w, 1, 1))
			fail := failed(w, 1, 1)
			broken := fail.Data.(session.StepFailedData)
			broken.Message = word
			fail.Data = broken
			appendAll(t, w, fail)
			var kept session.StepStartedData
			if err := made[0].Decode(&kept); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(data, kept); diff != "" {
				t.Errorf("StepStarted: (-want +got)\n%s", diff)
			}
			got := load(t, s, w.Session().ID).Session()
			if st := got.Steps[stepID(0)]; got.State != session.Executing || got.Workspace != "/ws" || st == nil || st.Status != session.StepDone || got.Files["a/postgres"] == nil {
				t.Errorf("Load: got %+v", got)
			}
			if st := got.Steps[stepID(1)]; st == nil || st.Message != "****" {
				t.Errorf("Load: got the step %+v, want its message masked", st)
			}
		})
	}
}

// quoted redacts texts that are equal to one word.
type quoted string

func (q quoted) Value(v any) any {
	return redact.Texts(v, func(_, text string) string {
		if text == string(q) {
			return "****"
		}
		return text
	})
}
func (q quoted) Changes(b []byte) bool       { return string(b) == string(q) }
func (quoted) Memory([]byte) []byte          { return nil }
func (quoted) Remember([]byte, []byte) error { return nil }

// A changed blob that is stored uncompressed is found by its name.
func TestChangedBlobIsNamed(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	ref, err := w.Stage(t.Context(), bytes.NewReader(noise(1000)), 1000)
	must(t, err)
	appendAll(t, w, started(w, 0, 1))
	id := w.Session().ID
	must(t, errors.Join(w.Close(), s.Close()))
	tamper(t, o, `UPDATE blobs SET data = zeroblob(length(data)) WHERE codec = 'raw' AND bytes = 1000`)
	if _, err := content(t, load(t, openRead(t, o), id), ref.Hash); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Open: got %v, want %v", err, session.ErrCorrupt)
	}
}
