package remote_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/migrations"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

var writeFixture = flag.Bool("write-fixture", false, "write testdata/schema5.sql anew; what was released stays as it is")

// schema5 is a server of the first released schema, with what was delivered to it.
const schema5 = "testdata/schema5.sql"

// A server of the first released schema is migrated forward by every later version, goes on
// where it was, and verifies.
func TestFirstSchemaIsKept(t *testing.T) {
	if *writeFixture {
		dumpFirstSchema(t)
	}
	migrated(t) // the roles belong to the cluster
	dump, err := os.ReadFile(schema5)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, url: pgtest.Database(t)}
	pgtest.Psql(t, s.url, string(dump))
	m, err := remote.Migrate(t.Context(), options(s.url), nil)
	if err != nil || m != (remote.Migrated{From: 5, To: migrations.PostgresVersion}) {
		t.Fatalf("Migrate: got %+v, %v", m, err)
	}
	r := s.open(s.url)
	hello, err := r.Hello(t.Context(), device)
	if err != nil || hello.Events != 45 {
		t.Fatalf("Hello: got %d events, %v; want 45", hello.Events, err)
	}
	marks, err := r.Marks(t.Context(), device, "", 10)
	if err != nil || len(marks) != 2 {
		t.Fatalf("Marks: got %+v, %v", marks, err)
	}
	for _, mark := range marks {
		next := session.Event{Session: mark.Session, Seq: mark.Seq + 1, TimeUS: 1_900_000_000_000_000, Type: session.StepStarted, Actor: "acode", Epoch: mark.Epoch, Payload: []byte(`{"v":1}`)}
		next.Hash = next.ChainHash(mark.Head)
		got, err := r.Deliver(t.Context(), session.Delivery{Session: mark.Session, Device: device, Prev: mark.Head, Events: []session.Event{next}})
		if err != nil || got.Seq != mark.Seq+1 || got.Verdict != session.DeliveryTaken {
			t.Errorf("Deliver: got %+v, %v", got, err)
		}
	}
	settle(t, r)
	c, err := remote.VerifyAll(t.Context(), options(s.url))
	if err != nil || len(c.Differences) > 0 || c.Sessions != 2 || c.Events != 47 || c.Forks != 2 || c.Blobs != 1 {
		t.Errorf("VerifyAll: got %+v, %v", c, err)
	}
	if missing, err := r.MissingBlobs(t.Context(), []string{contentHash}); err != nil || len(missing) > 0 {
		t.Errorf("MissingBlobs: got %v, %v", missing, err)
	}
}

const (
	content     = "content of the fixture\n"
	contentHash = "c633e5eaf026b17f836ee1f2343ddc591bf134eca8f96283057aaaf3631c6c0f"
)

func settle(t *testing.T, r *remote.Server) {
	t.Helper()
	for _, chore := range []func(context.Context, int) (bool, error){r.Verify, r.Project} {
		for more := true; more; {
			var err error
			if more, err = chore(t.Context(), 100); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// dumpFirstSchema delivers two sessions, a fork and a blob to a new server, and keeps it.
func dumpFirstSchema(t *testing.T) {
	t.Helper()
	s := newSite(t)
	r := s.open(s.url)
	one, two := newChain(20).acquire().grow(9), newChain(15)
	other := one.split(25)
	other.grow(2)
	if err := r.PutBlob(t.Context(), contentHash, int64(len(content)), strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	for _, d := range []session.Delivery{one.from(1, 30), two.from(1, 15), other.from(26, 27)} {
		if _, err := r.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, r)
	out, err := exec.Command("pg_dump", "--dbname="+s.url, "--inserts").Output()
	if err != nil {
		t.Fatal(err)
	}
	out = regexp.MustCompile(`(?m)^\\(un)?restrict .*\n`).ReplaceAll(out, nil) // newer than some psql
	if err := os.WriteFile(schema5, bytes.TrimSpace(out), 0o644); err != nil {
		t.Fatal(err)
	}
}
