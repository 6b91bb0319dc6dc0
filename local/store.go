package local

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/acode-dev/acode/session"
)

// Redactor removes secrets. *redact.Redactor implements it.
type Redactor interface {
	// Value returns a copy of v with redacted texts. It does not redact fields with the
	// tag redact:"-".
	Value(v any) any

	// Changes reports whether redaction would change b.
	Changes(b []byte) bool

	// Memory returns fingerprints of the known secrets, made with key. Remember adds such
	// fingerprints to the known secrets.
	Memory(key []byte) []byte
	Remember(key, memory []byte) error
}

// Options say which store to open and how.
type Options struct {
	// Home is the absolute directory of the store.
	Home string
	// Now returns the wall clock time.
	Now func() time.Time
	// Redactor may be nil, which redacts nothing.
	Redactor Redactor
	// Version of acode, which new sessions record.
	Version string
	// Env looks up ACODE_CHECKPOINT_SECRET; nil finds nothing.
	Env func(string) string
	// Keyring lets a new store keep its key in the keyring of the operating system.
	Keyring bool

	// number of pages of a new log; 0 means growFrames; for tests
	frames int
	// nil means the schema of this program; for tests
	schema *schema
}

// Store is an open store. It is safe for concurrent use. Several processes may have the
// store open, each writing its own sessions.
type Store struct {
	opts   Options
	row    storeRow
	packer packer
	// nil until first needed in a store opened for reading
	keys *keys
	kmu  sync.Mutex
	// hashes of the blobs that the redactor remembers
	learnt sync.Map
	// guards the fields below, because only one connection writes
	mu sync.Mutex
	// nil when opened for reading
	wr *writeConn
	// there is a Writer
	used bool
	rmu  sync.Mutex
	// nil until the first read
	rd *handle
}

// storeRow is the one row that describes the store itself.
type storeRow struct {
	format    int
	device    string
	keySource string
	keyID     string
	hmac      session.Hash
}

func (r storeRow) signed() []byte {
	b := []byte("acode-store-v1\x00")
	b = texts(b, r.device, r.keySource, r.keyID)
	return numbers(b, uint64(r.format))
}

func readStoreRow(ctx context.Context, q querier) (r storeRow, err error) {
	err = q.queryRow(ctx, `SELECT format, device, key_source, key_id, hmac FROM store WHERE one = 1`, nil,
		&r.format, &r.device, &r.keySource, &r.keyID, &r.hmac)
	if err == nil {
		return r, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return r, rowError("read store", "", err)
	}
	var sessions int
	if cerr := q.queryRow(ctx, `SELECT count(*) FROM sessions`, nil, &sessions); cerr == nil && sessions > 0 {
		return r, &session.Error{Code: session.ErrTampered, Message: "the store has sessions and no row that describes it; nothing was changed", Place: trustedPlace(0), Next: session.Words("put the database and its log back from a backup")}
	}
	return r, err
}

// Device returns the random id of the store.
func (s *Store) Device() string { return s.row.device }

// NewID returns a new id of a session: a UUIDv7 of the current time.
func (s *Store) NewID() (session.ID, error) {
	u, err := newUUID(s.opts.Now().UnixMicro())
	if err != nil {
		return "", err
	}
	return uuidText(u), nil
}

// newUUID returns a UUIDv7 whose first 60 bits of value follow us, so that ids sort by
// time.
func newUUID(us int64) (u [16]byte, err error) {
	if _, err := rand.Read(u[:]); err != nil {
		return u, fmt.Errorf("make id: %w", err)
	}
	ms, sub := uint64(us)/1000, uint64(us)%1000
	binary.BigEndian.PutUint64(u[:8], ms<<16|0x7000|sub*4096/1000)
	u[8] = u[8]&0x3f | 0x80
	return u, nil
}

func uuidText(u [16]byte) session.ID {
	h := hex.EncodeToString(u[:])
	return session.ID(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}

// Close closes every connection. Writers of this store are unusable afterwards.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rmu.Lock()
	defer s.rmu.Unlock()
	var errs []error
	if s.rd != nil {
		errs = append(errs, s.rd.close())
		s.rd = nil
	}
	if s.wr != nil {
		errs = append(errs, s.wr.close())
		s.wr = nil
	}
	return errors.Join(errs...)
}

// theKeys returns the keys. If the store was opened for reading, it finds them first.
func (s *Store) theKeys(ctx context.Context) (*keys, error) {
	s.kmu.Lock()
	defer s.kmu.Unlock()
	if s.keys != nil {
		return s.keys, nil
	}
	k, err := s.findKeys(ctx)
	if err != nil {
		return nil, err
	}
	s.keys = k
	if s.opts.Redactor != nil {
		err = s.opts.Redactor.Remember(k.learnt, nil)
	}
	return k, err
}

// findKeys reads the key from the source that the store names, and checks the signature
// of the store's row with it.
func (s *Store) findKeys(ctx context.Context) (*keys, error) {
	src := s.source()
	k, err := src.find(ctx, s.row.keySource, s.row.keyID, s.row.device)
	if err != nil {
		return nil, err
	}
	tampered := &session.Error{Code: session.ErrTampered, Message: "the row that describes the store does not match its signature; nothing was changed", Place: "table store", Next: session.Do(session.MoveVerify, "")}
	if k.id == s.row.keyID {
		if !sameHash(k.sign(s.row.signed()), s.row.hmac) {
			return nil, tampered
		}
		return k, nil
	}
	renamed := s.row
	renamed.keyID = k.id
	if sameHash(k.sign(renamed.signed()), s.row.hmac) {
		return nil, tampered // the key is right, but the row names another
	}
	return nil, keyMissing(s.row.keySource, s.row.keyID, src.place(s.row.keySource), fmt.Errorf("found key %s", k.id))
}

func (s *Store) source() keySource {
	src := keySource{home: s.opts.Home, env: s.opts.Env}
	if s.opts.Keyring {
		src.keyring = osKeyring{}
	}
	if src.env == nil {
		src.env = func(string) string { return "" }
	}
	return src
}

// InPlace returns ErrStoreIO when the files of a store open for writing were removed or
// replaced. For a store open for reading it returns nil.
func (s *Store) InPlace() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wr == nil {
		return nil
	}
	err := s.wr.inPlace()
	if err != nil {
		s.wr.dead = err
	}
	return err
}

// read runs f on one consistent state of the database, without writing. Until there is a
// Writer, it uses the connection that writes, because opening a second one takes most of
// a millisecond. A Writer must not wait for readers, so then it uses the connection that
// reads.
func (s *Store) read(ctx context.Context, f func(q querier) error) error {
	if s.mu.TryLock() {
		if s.wr != nil && !s.used {
			defer s.mu.Unlock()
			return s.wr.snapshot(ctx, f)
		}
		s.mu.Unlock()
	}
	s.rmu.Lock()
	defer s.rmu.Unlock()
	l, err := s.reader(ctx)
	if err != nil {
		return err
	}
	return l.snapshot(ctx, f)
}
