package remote

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Settings of the pool. A connection that stood still is asked whether it lives before it
// is used, within a time of its own, and none lives for ever: behind a name the server
// may have moved. The jitter keeps clients that began together from ending together.
const (
	// as many as a syncer has lanes in flight
	maxConns       = 4
	connectTimeout = 5 * time.Second
	pingTimeout    = 2 * time.Second
	idleLimit      = 5 * time.Minute
	lifeLimit      = 30 * time.Minute
	lifeJitter     = 5 * time.Minute
)

// newPool makes a pool that connects when it is first asked. Each connection begins with
// the password as it is then: one that a person mended counts from the next attempt on.
func newPool(o Options, cfg *pgx.ConnConfig, scrub *atomic.Pointer[scrubber]) (*pgxpool.Pool, error) {
	p, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, err
	}
	p.ConnConfig = cfg
	p.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		if now, err := parse(o.URL, o.AllowPlaintext); err == nil { // else what was read before stays
			c.Password = now.Password
			clean := newScrubber(&c.Config)
			scrub.Store(&clean)
		}
		return nil
	}
	p.MaxConns = maxConns
	p.PingTimeout = pingTimeout
	p.MaxConnIdleTime = idleLimit
	p.MaxConnLifetime = lifeLimit
	p.MaxConnLifetimeJitter = lifeJitter
	return pgxpool.NewWithConfig(context.Background(), p)
}

// Reset has calls to come connect anew. Those that are on their way go on.
func (s *Server) Reset() { s.pool.Reset() }
