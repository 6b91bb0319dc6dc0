package remote

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Settings of the pool. A connection that stood still is asked whether it lives before it is
// used, within a time of its own, and none lives for ever: behind a name the server may have
// moved. The jitter keeps clients that began together from ending together.
const (
	connectTimeout = 5 * time.Second
	pingTimeout    = 2 * time.Second
	idleLimit      = 5 * time.Minute
	lifeLimit      = 30 * time.Minute
	lifeJitter     = 5 * time.Minute
)

// newPool makes a pool that connects when it is first asked.
func newPool(url string, cfg *pgx.ConnConfig, size int) (*pgxpool.Pool, error) {
	p, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	p.ConnConfig = cfg
	p.MaxConns = int32(size)
	p.PingTimeout = pingTimeout
	p.MaxConnIdleTime = idleLimit
	p.MaxConnLifetime = lifeLimit
	p.MaxConnLifetimeJitter = lifeJitter
	return pgxpool.NewWithConfig(context.Background(), p)
}

// with lends a connection to use. Below pgx, on its protocol layer, statements have no name and
// values the form that is chosen here.
func (s *Server) with(ctx context.Context, use func(c *pgconn.PgConn) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return use(conn.Conn().PgConn())
}
