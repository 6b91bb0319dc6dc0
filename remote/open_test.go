package remote_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// S6: TLS is required beyond this machine, and the password is in no error.
func TestOpen(t *testing.T) {
	const secret = "hunter2-geheim%21"
	for address, want := range map[string]session.Code{
		"": session.ErrSyncOff,
		"postgres://u:" + secret + "@db.example.com/d?sslmode=disable":      session.ErrConfig,
		"postgres://u:" + secret + "@192.0.2.7,127.0.0.1/d?sslmode=disable": "",
		"postgres://u:" + secret + "@db.example.com/d?sslmode=verify-full":  "",
		"postgres://u:" + secret + "@db.example.com/d":                      "",
		"postgres://u:" + secret + "@localhost/d?sslmode=disable":           "",
		"postgres://u:" + secret + "@[::1]:7777/d?sslmode=disable":          "",
		"host=/var/run/postgresql dbname=d password=" + secret:              "",
		"postgres://u:" + secret + "@db.example.com:port/d":                 session.ErrConfig,
		"://" + secret:                      session.ErrConfig,
		"host=x password='" + secret:        session.ErrConfig,
		"postgres://u:" + secret + "%zz@h/": session.ErrConfig,
	} {
		r, err := remote.Open(remote.Options{URL: address, Now: time.Now})
		if want == "" && err != nil || want != "" && !errors.Is(err, want) {
			t.Errorf("Open %q: got %v, want %q", address, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Open: the password is in %q", err)
		}
		if err == nil {
			if strings.Contains(r.Address(), "hunter2") || strings.Contains(r.Address(), "u@") {
				t.Errorf("Address: got %q, want no user and no password", r.Address())
			}
			_ = r.Close()
		}
	}
	r, err := remote.Open(remote.Options{URL: "postgres://u:p@db.example.com/d?sslmode=disable", Now: time.Now, AllowPlaintext: true})
	if err != nil {
		t.Fatalf("Open with AllowPlaintext: %v", err)
	}
	defer func() { _ = r.Close() }()
	if got := r.Address(); got != "db.example.com:5432/d" {
		t.Errorf("Address: got %q", got)
	}
	several, err := remote.Open(remote.Options{URL: "postgres://u:p@one.example.com,two.example.com:5433,[::1]/d?sslmode=prefer", Now: time.Now, AllowPlaintext: true})
	if err != nil {
		t.Fatalf("Open with several hosts: %v", err)
	}
	defer func() { _ = several.Close() }()
	if got := several.Address(); got != "one.example.com:5432,two.example.com:5433,[::1]:5432/d" {
		t.Errorf("Address of several hosts: got %q, want each once", got)
	}
}

// An unknown parameter of the address is reported as an error of the address, and is
// named.
func TestUnknownParameter(t *testing.T) {
	_, err := (&site{t: t, url: common()}).open(common()+"&sslrootcrt=/etc/ssl/ca.pem").Hello(t.Context(), device)
	wantClass(t, "Hello", err, session.FaultUnmigrated)
	var e *session.Error
	if !errors.As(outbox.Envelope(err), &e) || !strings.Contains(e.Next.String(), "behind the ?") || !strings.Contains(e.Cause.Error(), "sslrootcrt") {
		t.Errorf("Hello: got %+v, want the parameter named", e)
	}
}

// No way without TLS is left among the fallbacks to a server on another machine.
func TestNoPlaintextFallback(t *testing.T) {
	for address, want := range map[string]int{
		"postgres://db.example.com/d?sslmode=prefer":              1,
		"postgres://db.example.com/d?sslmode=allow":               1,
		"postgres://192.0.2.7,127.0.0.1/d?sslmode=disable":        1,
		"postgres://localhost/d?sslmode=prefer":                   2,
		"postgres://a.example.com,b.example.com/d?sslmode=prefer": 2,
	} {
		if got := remote.Ways(t, address); got != want {
			t.Errorf("%s: %d ways are left, want %d", address, got, want)
		}
	}
}

// FR-051: a wrong role or password is an authentication fault, and no error has the
// password.
func TestWrongRole(t *testing.T) {
	address := pgtest.Database(t)
	s := &site{t: t, url: address}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("nobody_of_ours", "hunter2-geheim")
	r := s.open(u.String())
	_, err = r.Hello(t.Context(), device)
	wantClass(t, "Hello as an unknown role", err, session.FaultAuth)
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the password is in %q", err)
	}
}

// The password is removed from the text of any error.
func TestScrub(t *testing.T) {
	inner := errors.New("dial postgres://u:p%40ss%2Fword@h or p@ss/word")
	got := remote.Scrub("p@ss/word", inner)
	if strings.Contains(got.Error(), "p@ss") || strings.Contains(got.Error(), "p%40ss") || !errors.Is(got, inner) {
		t.Errorf("Scrub: got %q", got)
	}
	for _, short := range []string{"p", "acode", "password"} {
		plain := errors.New("password authentication failed for user p of database acode")
		if got := remote.Scrub(short, plain).Error(); strings.Contains(got, "[[") || len(short) < 8 && got != plain.Error() {
			t.Errorf("Scrub %q: got %q", short, got)
		}
	}
	if plain := errors.New("other"); remote.Scrub("p@ss/word", plain) != plain {
		t.Errorf("Scrub: changed an error without password")
	}
}
