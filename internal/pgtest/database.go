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

// Database makes an empty database and gives its address for a superuser. The database
// goes when the test ends, and ends connections to it. The cluster is shared, so that
// roles and settings in it are everybody's.
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

// cluster is where Database makes databases.
type cluster struct {
	// of the database postgres, for a superuser
	address string
	// which would end if its pipe were collected as garbage; nil: somebody else's
	keep *Server
}

// shared finds the cluster that tests share: the one that ACODE_TEST_POSTGRES names, else
// one that this process starts and that ends with it.
var shared = sync.OnceValues(func() (*cluster, error) {
	if base := os.Getenv("ACODE_TEST_POSTGRES"); base != "" {
		return &cluster{address: base}, nil
	}
	s, err := newServer(nil, Options{Conf: map[string]string{"max_connections": "200"}})
	if err != nil {
		if s != nil {
			_ = s.super.close() // the first failure says more
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
