package remote_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// A server that cannot prove its identity gets no password; one without TLS gets none
// either.
func TestUntrustedServer(t *testing.T) {
	roots := filepath.Join(t.TempDir(), "ca.pem")
	der, _ := certificate(t)
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		answer, mode string
		want         session.SyncFaultClass
		hint         string
	}{
		"unknown certificate":          {"S", "verify-full", session.FaultAuth, "sslrootcert"},
		"certificate of another":       {"S", "verify-full&sslrootcert=" + roots, session.FaultAuth, "sslrootcert"},
		"certificate of another, less": {"S", "verify-ca&sslrootcert=" + roots, session.FaultAuth, "sslrootcert"},
		"no TLS":                       {"N", "verify-full", session.FaultOffline, "look at the server"},
	} {
		heard := make(chan []byte, 16)
		address := impostor(t, c.answer, heard)
		to := "postgres://u:hunter2-geheim@" + address + "/d?sslmode=" + c.mode
		r, err := remote.Open(remote.Options{URL: to, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Hello(t.Context(), device)
		wantClass(t, name, err, c.want)
		_ = r.Close()
		if strings.Contains(string(<-heard), "hunter2") {
			t.Errorf("%s: received the password", name)
		}
		var e *session.Error
		if _, err := remote.ReadStatus(t.Context(), options(to)); !errors.As(err, &e) || !strings.Contains(e.Next.String(), c.hint) {
			t.Errorf("%s: ReadStatus: got %v, %+v, want a hint with %q", name, err, e, c.hint)
		}
		<-heard
	}
}

// impostor answers a request for TLS with one letter and a certificate of its own, and
// reports the bytes that follow.
func impostor(t *testing.T, answer string, heard chan<- []byte) string {
	t.Helper()
	der, key := certificate(t)
	return listening(t, func(conn net.Conn) {
		_, _ = io.ReadFull(conn, make([]byte, 8))
		_, _ = io.WriteString(conn, answer)
		var rest io.Reader = conn
		if answer == "S" {
			rest = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
		}
		// to the end, which an error is too
		b, _ := io.ReadAll(rest)
		heard <- b
	})
}

// certificate makes an unsigned certificate.
func certificate(t *testing.T) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nobody"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// listening has serve answer each connection, one after the other, and returns the
// address.
func listening(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}
