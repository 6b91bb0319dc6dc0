package remote_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// A person reads one line with the reason, even if the driver tried several addresses.
func TestReasonIsBrief(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	_ = l.Close()
	for address, want := range map[string]string{
		"postgres://me:hunter22@" + closed + "/x":              "connection refused (" + closed + ")",
		"postgres://me@no.such.host.invalid/x?sslmode=require": "the name no.such.host.invalid cannot be resolved",
	} {
		s, err := remote.Open(remote.Options{URL: address, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Hello(context.Background(), "device")
		var f *session.SyncFault
		if !errors.As(err, &f) || f.Reason() != want || strings.Contains(f.Error(), "\n") {
			t.Errorf("Hello at %s: got %v, want %s", closed, err, want)
		}
		_ = s.Close()
	}
}
