package remote_test

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// Hello names the database, not its address, and counts only the events of this device.
func TestHello(t *testing.T) {
	s := commonSite(t)
	mine, theirs := s.role("acode_writer"), s.role("acode_writer")
	r := s.open(mine)
	for i, address := range []string{mine, mine, theirs} {
		c := newChain(3 + i)
		if _, err := s.open(address).Deliver(t.Context(), c.from(1, 3+i)); err != nil {
			t.Fatal(err)
		}
	}
	other := newChain(1).from(1, 1)
	other.Device = "another store"
	if _, err := r.Deliver(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	h, err := r.Hello(t.Context(), device)
	if err != nil {
		t.Fatal(err)
	}
	want := s.value(`SELECT system_identifier || '/' || current_database() || '/acode' FROM pg_control_system()`)
	if h.Remote.String() != want || h.Events != 7 || h.ReadOnly {
		t.Errorf("Hello: got %+v, want %s and 7 events", h, want)
	}
	u, err := url.Parse(mine)
	if err != nil {
		t.Fatal(err)
	}
	s.exec(fmt.Sprintf(`ALTER ROLE %s SET default_transaction_read_only = on`, u.User.Username()))
	ro := s.open(mine)
	if h, err = ro.Hello(t.Context(), device); err != nil || !h.ReadOnly {
		t.Errorf("Hello of a read-only server: got %+v, %v", h, err)
	}
	_, err = ro.Deliver(t.Context(), newChain(1).from(1, 1))
	wantClass(t, "Deliver to a read-only server", err, session.FaultReadOnly)
}

// After a reset no call uses an earlier connection: the address may lead elsewhere by
// now.
func TestReset(t *testing.T) {
	s := commonSite(t)
	address := s.role("acode_writer")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	r := s.open(address)
	for _, readOnly := range []bool{true, false} {
		// applies to new connections
		s.exec(fmt.Sprintf(`ALTER ROLE %s SET default_transaction_read_only = %t`, u.User.Username(), readOnly))
		if h, err := r.Hello(t.Context(), device); err != nil || h.ReadOnly != readOnly {
			t.Errorf("Hello: got %+v, %v, want read-only: %t", h, err, readOnly)
		}
		r.Reset()
	}
}

// Marks lists this device's sessions, in pages, by id.
func TestMarks(t *testing.T) {
	s := commonSite(t)
	r := s.open(s.role("acode_writer"))
	var want []session.Mark
	for i := range 7 {
		c := newChain(1 + i).acquire()
		if _, err := r.Deliver(t.Context(), c.from(1, 2+i)); err != nil {
			t.Fatal(err)
		}
		want = append(want, session.Mark{Session: c.id, Seq: uint64(2 + i), Head: c.head(), Epoch: 1, Verdict: session.DeliveryTaken})
	}
	slices.SortFunc(want, func(a, b session.Mark) int { return cmp.Compare(a.Session, b.Session) })
	if _, err := s.open(s.role("acode_writer")).Deliver(t.Context(), newChain(1).from(1, 1)); err != nil {
		t.Fatal(err)
	}
	var got []session.Mark
	after := session.ID("")
	for {
		page, err := r.Marks(t.Context(), device, after, 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		got, after = append(got, page...), page[len(page)-1].Session
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("Marks differ (-want +got):\n%s", diff)
	}
	_, err := r.Marks(t.Context(), device, "no id", 3)
	wantClass(t, "Marks after an invalid id", err, session.FaultRefused)
}

// A session that continues from another store is counted and listed there.
func TestAnotherStore(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	c, stays := newChain(9), newChain(2)
	for i, d := range []session.Delivery{c.from(1, 3), stays.from(1, 2), c.from(4, 6), c.from(7, 9)} {
		if i >= 2 {
			d.Device = "the other"
		}
		if _, err := r.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	for store, want := range map[string]uint64{device: 2, "the other": 9, "none": 0} {
		if h, err := r.Hello(t.Context(), store); err != nil || h.Events != want {
			t.Errorf("Hello of %s: got %d events, %v, want %d", store, h.Events, err, want)
		}
	}
	if got, err := remote.VerifyAll(t.Context(), options(s.url)); err != nil || len(got.Differences) != 0 {
		t.Errorf("VerifyAll: got %+v, %v", got, err)
	}
}
