package local

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/acode-dev/acode/session"
	"github.com/zalando/go-keyring"
)

// SecretVariable names the environment variable that may hold the secret of a store.
const SecretVariable = "ACODE_CHECKPOINT_SECRET"

const (
	sourceEnv     = "env"
	sourceKeyring = "keyring"
	sourceFile    = "file"

	minSecretBytes = 16
	keyringService = "acode"
	keyringWait    = 2 * time.Second
)

// keys are derived from one secret. Each use has its own key, so that a signature for one
// use is never valid for another.
type keys struct {
	source string
	// first 8 hex digits of SHA-256("acode key id" || secret)
	id string
	// signs checkpoints, commits, heads, requests and the store's own row
	mac []byte
	// for digests of projection rows
	state []byte
	// encrypts sealed blobs
	seal []byte
	// for names of sealed blobs
	name []byte
	// for digests of variables
	env []byte
	// for fingerprints of secrets
	learnt []byte
	macs   sync.Pool
}

func newKeys(source string, secret []byte) (*keys, error) {
	sum := sha256.Sum256(append([]byte("acode key id"), secret...))
	k := &keys{source: source, id: hex.EncodeToString(sum[:4])}
	for use, dst := range map[string]*[]byte{"mac": &k.mac, "state": &k.state, "seal": &k.seal, "name": &k.name, "env": &k.env, "learnt": &k.learnt} {
		sub, err := hkdf.Key(sha256.New, secret, nil, "acode "+use+" v1", 32)
		if err != nil {
			return nil, fmt.Errorf("derive key: %w", err)
		}
		*dst = sub
	}
	return k, nil
}

// sign returns the HMAC of b.
func (k *keys) sign(b []byte) (h session.Hash) {
	m, ok := k.macs.Get().(hash.Hash)
	if !ok {
		m = hmac.New(sha256.New, k.mac)
	}
	m.Reset()
	m.Write(b)
	m.Sum(h[:0])
	k.macs.Put(m)
	return h
}

func mac(key, b []byte) (h session.Hash) {
	m := hmac.New(sha256.New, key)
	m.Write(b)
	m.Sum(h[:0])
	return h
}

func sameHash(a, b session.Hash) bool { return hmac.Equal(a[:], b[:]) }

// keyringStore is the keyring of the operating system, or a fake in tests.
type keyringStore interface {
	Get(service, user string) (string, error)
	Set(service, user, secret string) error
}

type osKeyring struct{}

func (osKeyring) Get(service, user string) (string, error) { return keyring.Get(service, user) }
func (osKeyring) Set(service, user, secret string) error {
	return keyring.Set(service, user, secret)
}

// keySource finds secrets in the three places that a store can name.
type keySource struct {
	home string
	env  func(string) string
	// nil if it must not be used
	keyring keyringStore
}

// choose selects the source of a new store, and makes the key if there is none yet.
func (s keySource) choose(ctx context.Context, device string) (*keys, error) {
	if secret := s.env(SecretVariable); secret != "" {
		return s.fromEnv()
	}
	if s.keyring != nil {
		secret := make([]byte, 32)
		if _, err := rand.Read(secret); err != nil {
			return nil, fmt.Errorf("make key: %w", err)
		}
		_, err := bounded(ctx, func() (string, error) {
			return "", s.keyring.Set(keyringService, device, hex.EncodeToString(secret))
		})
		if err == nil {
			return newKeys(sourceKeyring, secret)
		}
	}
	return s.makeFile()
}

// find reads the key of an existing store from the source that the store first used. It
// never tries another source.
func (s keySource) find(ctx context.Context, source, id, device string) (*keys, error) {
	var k *keys
	var err error
	switch source {
	case sourceEnv:
		k, err = s.fromEnv()
	case sourceKeyring:
		k, err = s.fromKeyring(ctx, device)
	case sourceFile:
		k, err = s.fromFile()
	default:
		return nil, &session.Error{Code: session.ErrCorrupt, Message: "the store names an unknown source of its key; nothing was changed", Next: session.Do(session.MoveVerify, "")}
	}
	switch {
	case errors.Is(err, session.ErrStoreMode): // the file exists, and the error says what to do
		return nil, err
	case err != nil:
		return nil, keyMissing(source, id, s.place(source), err)
	}
	return k, nil
}

func keyMissing(source, id, place string, cause error) error {
	return &session.Error{
		Code:    session.ErrKey,
		Message: fmt.Sprintf("the key %s of this store is missing: its source is %s; nothing was changed", id, source),
		Place:   place, Next: session.Words("make the key available again at " + place), Cause: cause,
	}
}

func (s keySource) place(source string) string {
	switch source {
	case sourceEnv:
		return "environment variable " + SecretVariable
	case sourceKeyring:
		return "keyring of the operating system, service " + keyringService
	}
	return s.file()
}

func (s keySource) file() string { return filepath.Join(s.home, "key") }

func (s keySource) fromEnv() (*keys, error) {
	secret := s.env(SecretVariable)
	if len(secret) < minSecretBytes {
		return nil, &session.Error{
			Code:    session.ErrKey,
			Message: fmt.Sprintf("it must hold at least %d bytes; it holds %d", minSecretBytes, len(secret)),
			Place:   "environment variable " + SecretVariable, Next: session.Words("set it to the secret of this store"),
		}
	}
	return newKeys(sourceEnv, []byte(secret))
}

func (s keySource) fromKeyring(ctx context.Context, device string) (*keys, error) {
	if s.keyring == nil {
		return nil, errors.New("the keyring is switched off")
	}
	text, err := bounded(ctx, func() (string, error) { return s.keyring.Get(keyringService, device) })
	if err != nil {
		return nil, fmt.Errorf("read keyring: %w", err)
	}
	secret, err := hex.DecodeString(text)
	if err != nil {
		return nil, errors.New("read keyring: the entry is no key")
	}
	return newKeys(sourceKeyring, secret)
}

func (s keySource) fromFile() (*keys, error) {
	if err := checkOwner(s.file(), false); err != nil {
		return nil, err
	}
	secret, err := os.ReadFile(s.file())
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	if len(secret) != 32 {
		return nil, &session.Error{Code: session.ErrKey, Place: s.file(), Next: session.Words("put the key of this store back, or move the file away if there was never a session"),
			Message: fmt.Sprintf("the file holds %d bytes instead of a key of 32 bytes; nothing was changed", len(secret))}
	}
	return newKeys(sourceFile, secret)
}

// keyPattern is the pattern of the name of an unfinished key file.
const keyPattern = "key-*"

// makeFile makes the key file if it is missing. It links the file into place only when it
// is complete and durable, so that a crash leaves no half key.
func (s keySource) makeFile() (*keys, error) {
	removeLeft(s.home, keyPattern) // no other process makes one: the store is locked
	if _, err := os.Lstat(s.file()); err == nil {
		return s.fromFile()
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	tmp, err := writeTemp(s.home, keyPattern, secret)
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(tmp) }() // a leftover file is harmless
	if err := os.Link(tmp, s.file()); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, storeError("make key", err)
	}
	if err := syncDir(s.home); err != nil {
		return nil, err
	}
	return s.fromFile()
}

// bounded stops waiting for a keyring that does not answer. A locked keyring may wait for
// a person.
func bounded(ctx context.Context, f func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	ctx, cancel := context.WithTimeout(ctx, keyringWait)
	defer cancel()
	ch := make(chan answer, 1)
	go func() {
		text, err := f()
		ch <- answer{text, err}
	}()
	select {
	case a := <-ch:
		return a.text, a.err
	case <-ctx.Done():
		return "", fmt.Errorf("wait for keyring: %w", ctx.Err())
	}
}
