package remote_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// A server that cannot show who it is gets no password; one without TLS gets none either.
func TestUntrustedServer(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   session.SyncFaultClass
	}{"certificate of nobody": {"S", session.FaultAuth}, "no TLS": {"N", session.FaultOffline}} {
		heard := make(chan []byte, 16)
		address := impostor(t, c.answer, heard)
		r, err := remote.Open(remote.Options{URL: "postgres://u:hunter2-geheim@" + address + "/d?sslmode=verify-full", Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Hello(t.Context(), device)
		wantClass(t, name, err, c.want)
		_ = r.Close()
		if strings.Contains(string(<-heard), "hunter2") {
			t.Errorf("%s: was told the password", name)
		}
	}
}

// impostor answers a request for TLS with one letter and a certificate of its own, and tells
// what it heard afterwards.
func impostor(t *testing.T, answer string, heard chan<- []byte) string {
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
	return listening(t, func(conn net.Conn) {
		_, _ = io.ReadFull(conn, make([]byte, 8))
		_, _ = io.WriteString(conn, answer)
		var rest io.Reader = conn
		if answer == "S" {
			rest = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
		}
		b, _ := io.ReadAll(rest) // to the end, which an error is too
		heard <- b
	})
}

// listening has serve answer each connection, one after the other, and gives the address.
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
