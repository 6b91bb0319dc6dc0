package remote

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Settings of the pool. An idle connection is tested before its next use, within
// pingTimeout. Every connection ends after some time, because the server behind a name
// may have moved. The jitter keeps clients that began together from ending together.
const (
	// maxConns is the number of lanes that a syncer has in flight.
	maxConns       = 4
	connectTimeout = 5 * time.Second
	pingTimeout    = 2 * time.Second
	idleLimit      = 5 * time.Minute
	lifeLimit      = 30 * time.Minute
	lifeJitter     = 5 * time.Minute
)

// newPool makes a pool that connects on the first call. Each connection reads the
// password again, so that a corrected password applies from the next attempt on.
func newPool(o Options, cfg *pgx.ConnConfig, scrub *atomic.Pointer[scrubber]) (*pgxpool.Pool, error) {
	p, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, err
	}
	p.ConnConfig = cfg
	p.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		// otherwise the earlier password stays
		if now, err := parse(o.URL, o.AllowPlaintext); err == nil {
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

// Reset makes later calls connect again. Calls in progress continue.
func (s *Server) Reset() { s.pool.Reset() }
