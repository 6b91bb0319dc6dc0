package remote_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/acode-dev/acode/session"
)

func blob(size int) (hash string, content []byte) {
	content = make([]byte, size)
	// it never fails, and does not compress
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), content
}

// fetch reads a blob back.
func (s *site) fetch(t *testing.T, hash string) []byte {
	t.Helper()
	stored := s.value(fmt.Sprintf(`SELECT encode(string_agg(c.data, ''::bytea ORDER BY c.n), 'hex') FROM acode.blob_chunks c JOIN acode.blobs b USING (owner, hash) WHERE hash = '\x%s'`, hash))
	b, err := hex.DecodeString(stored)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("read blob back: %v", err)
	}
	return plain
}

// Content of any size arrives whole, and is sent once.
func TestPutBlob(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	var hashes []string
	for _, size := range []int{0, 1, 100_000, 1 << 20, 2_500_000} {
		hash, content := blob(size)
		for range 2 {
			if err := r.PutBlob(t.Context(), hash, int64(size), bytes.NewReader(content)); err != nil {
				t.Fatalf("PutBlob of %d bytes: %v", size, err)
			}
		}
		if !bytes.Equal(s.fetch(t, hash), content) {
			t.Errorf("%d bytes came back different", size)
		}
		hashes = append(hashes, hash)
	}
	absent := hex.EncodeToString(make([]byte, 32))
	got, err := r.MissingBlobs(t.Context(), append([]string{absent, absent}, hashes...))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{absent}, got); diff != "" {
		t.Errorf("MissingBlobs differ (-want +got):\n%s", diff)
	}
	if got := s.value(`SELECT max(octet_length(data)) <= 1048576 AND count(*) = 8 FROM acode.blob_chunks`); got != "t" {
		t.Errorf("chunks are above 1 MiB, or not 8: %s", s.value(`SELECT string_agg(octet_length(data)::text, ' ') FROM acode.blob_chunks`))
	}
	other := s.open(s.role("acode_writer"))
	if got, err = other.MissingBlobs(t.Context(), hashes); err != nil || len(got) != len(hashes) {
		t.Errorf("MissingBlobs of another role: got %d, %v, want all: a role must not rely on another's content", len(got), err)
	}
}

// failing returns an error after its content.
type failing struct{ io.Reader }

var errRead = errors.New("disk trouble")

func (f failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err == io.EOF {
		err = errRead
	}
	return n, err
}

// A transfer that broke off continues where it was; content that does not match its name
// is never whole.
func TestPutBlobAgain(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	hash, content := blob(3_500_000)
	if err := r.PutBlob(t.Context(), hash, int64(len(content)), failing{bytes.NewReader(content[:3_000_000])}); !errors.Is(err, errRead) {
		t.Fatalf("PutBlob of unreadable content: got %v", err)
	}
	s.exec(`CREATE TABLE sent (n int); GRANT INSERT ON sent TO acode_owner;
		CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.sent VALUES (NEW.n); RETURN NEW; END';
		CREATE TRIGGER see AFTER INSERT OR UPDATE ON acode.blob_chunks FOR EACH ROW EXECUTE FUNCTION see();
		UPDATE acode.blob_chunks SET sum = sha256('other'), data = 'other' WHERE n = 1;
		INSERT INTO acode.blob_chunks SELECT owner, hash, 77, sum, data FROM acode.blob_chunks WHERE n = 1; TRUNCATE sent`)
	wrong := bytes.Clone(content)
	wrong[len(wrong)-1]++
	for name, body := range map[string][]byte{"other content": wrong, "too short": content[:len(content)-1], "too long": append(bytes.Clone(content), 0)} {
		wantClass(t, "PutBlob, "+name, r.PutBlob(t.Context(), hash, int64(len(content)), bytes.NewReader(body)), session.FaultRefused)
	}
	if missing, err := r.MissingBlobs(t.Context(), []string{hash}); err != nil || len(missing) != 1 {
		t.Fatalf("MissingBlobs: got %v, %v, want it missing", missing, err)
	}
	if err := r.PutBlob(t.Context(), hash, int64(len(content)), bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(s.fetch(t, hash), content) {
		t.Error("the blob came back different")
	}
	if got := s.value(`SELECT count(*) || ' ' || coalesce(sum((n = 0)::int), 0) FROM sent`); got[len(got)-1] != '0' {
		t.Errorf("sent again: %s (chunks, of them the first), want the first one not", got)
	}
}

// A chunk that changed on its way is refused.
func TestChunksAreChecked(t *testing.T) {
	s := commonSite(t)
	mine := s.role("acode_writer")
	const h = `decode(repeat('ab', 32), 'hex')`
	wantState(t, "put_chunk of other data", execAs(mine, `SELECT acode.put_chunk(`+h+`, 0, sha256('a'), 'b')`), "AC005")
	wantState(t, "finish_blob without chunks", execAs(mine, `SELECT acode.finish_blob(`+h+`, 1, 1, sha256(sha256('a')))`), "AC005")
	wantState(t, "finish_blob with too few", execAs(mine, `SELECT acode.put_chunk(`+h+`, 0, sha256('a'), 'a'), acode.finish_blob(`+h+`, 1, 2, sha256(sha256('a') || sha256('b')))`), "AC005")
	wantState(t, "put_chunk of 1 MiB and a byte", execAs(mine, `SELECT acode.put_chunk(`+h+`, 0, sha256(convert_to(repeat('a', 1048577), 'UTF8')), convert_to(repeat('a', 1048577), 'UTF8'))`), "23514")
	if err := execAs(mine, `SELECT acode.put_chunk(`+h+`, 0, sha256('a'), 'a'); SELECT acode.finish_blob(`+h+`, 1, 1, sha256(sha256('a'))), acode.put_chunk(`+h+`, 0, sha256('b'), 'b')`); err != nil {
		t.Fatal(err)
	}
	if got := s.value(`SELECT string_agg(convert_from(data, 'UTF8'), '') FROM acode.blob_chunks WHERE hash = ` + h); got != "a" {
		t.Errorf("a whole blob was changed: %q", got)
	}
	r := s.open(mine)
	wantClass(t, "PutBlob with an invalid hash", r.PutBlob(t.Context(), "ab", 0, bytes.NewReader(nil)), session.FaultRefused)
	_, err := r.MissingBlobs(t.Context(), []string{"xy"})
	wantClass(t, "MissingBlobs with an invalid hash", err, session.FaultRefused)
}
