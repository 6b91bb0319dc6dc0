package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
)

// Database makes an empty database and returns its address for a superuser. When the test
// ends, the database is dropped with all its connections. Tests share the cluster, so its
// roles and settings are shared too.
func Database(tb testing.TB) string {
	tb.Helper()
	c, err := shared()
	if err != nil {
		tb.Fatalf("pgtest.Database: %v", err)
	}
	base := c.address
	name := "t_" + strings.ToLower(rand.Text())
	if err := execute(base, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		tb.Fatalf("pgtest.Database: %v", err)
	}
	tb.Cleanup(func() {
		if err := execute(base, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("pgtest.Database: %v", err)
		}
	})
	u, err := url.Parse(base)
	if err != nil {
		tb.Fatalf("pgtest.Database: %v", err)
	}
	u.Path = "/" + name
	return u.String()
}

// cluster is the place where Database makes databases.
type cluster struct {
	// address is that of the database postgres, for a superuser.
	address string
	// keep must stay referenced: the server ends when its pipe is garbage-collected. It
	// is nil for a cluster that this process did not start.
	keep *Server
}

// shared returns the cluster that tests share: the one that ACODE_TEST_POSTGRES names, or
// one that this process starts and that ends with it.
var shared = sync.OnceValues(func() (*cluster, error) {
	if base := os.Getenv("ACODE_TEST_POSTGRES"); base != "" {
		return &cluster{address: base}, nil
	}
	s, err := newServer(nil, Options{Conf: map[string]string{"max_connections": "200"}})
	if err != nil {
		if s != nil {
			// The first error says more.
			_ = s.super.close()
		}
		return nil, err
	}
	return &cluster{address: s.URL("postgres", superuser), keep: s}, nil
})

func execute(address, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}
