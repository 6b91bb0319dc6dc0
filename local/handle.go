package local

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/acode-dev/acode/session"
	"modernc.org/sqlite"
)

// querier reads from a database.
type querier interface {
	// each calls f with each row of a query. If f returns errEnough, each skips the rest.
	// f must not run a query with the same text.
	each(ctx context.Context, query string, args []any, f func(r row) error) error

	// queryRow reads one row. It returns sql.ErrNoRows if there is none.
	queryRow(ctx context.Context, query string, args []any, dst ...any) error
}

// errEnough ends a query early.
var errEnough = errors.New("enough")

// readRows calls f with each row of a query. An error of f without a code means that the
// row holds values that acode never writes.
func readRows(ctx context.Context, q querier, doing string, id session.ID, query string, args []any, f func(r row) error) error {
	return storeError(doing, q.each(ctx, query, args, func(r row) error {
		if err := f(r); err != errEnough {
			return rowError(doing, id, err)
		}
		return errEnough
	}))
}

// reader is a Store, an Outbox or a Writer.
type reader interface {
	// read runs f on one consistent state, or while no other call uses the connection.
	read(ctx context.Context, f func(q querier) error) error
}

// look returns the value that f reads from r.
func look[T any](ctx context.Context, r reader, f func(ctx context.Context, q querier) (T, error)) (v T, err error) {
	err = r.read(ctx, func(q querier) error {
		v, err = f(ctx, q)
		return err
	})
	return v, err
}

// handle is one connection to a database, for one goroutine at a time. It keeps every
// statement. It does not use the pool of database/sql: no connection is shared here, and
// the pool's locks, copies and context watches cost as much as a statement.
type handle struct {
	conn  driver.Conn
	stmts map[string]driver.Stmt
	// arguments of the call in progress
	args []driver.NamedValue
	// statements are short, so watching the context would cost more than it gains
	brief bool
}

// openHandle opens the database of a data source name.
func openHandle(name string) (*handle, error) {
	conn, err := new(sqlite.Driver).Open(name)
	if err != nil {
		return nil, err
	}
	return newHandle(conn), nil
}

func newHandle(conn driver.Conn) *handle { return &handle{conn: conn, stmts: map[string]driver.Stmt{}} }

// keepWAL stops the last close from deleting the log. Otherwise the next process has to
// grow a new one.
func (l *handle) keepWAL() error {
	_, err := l.conn.(sqlite.FileControl).FileControlPersistWAL("main", 1)
	return err
}

// kept returns the prepared statement of a query.
func (l *handle) kept(query string) (driver.Stmt, error) {
	if st := l.stmts[query]; st != nil {
		return st, nil
	}
	st, err := l.conn.Prepare(query)
	if err == nil {
		l.stmts[query] = st
	}
	return st, err
}

// watched returns the context that the driver watches while a statement runs.
func (l *handle) watched(ctx context.Context) context.Context {
	if l.brief && ctx.Done() != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (l *handle) exec(ctx context.Context, query string, args ...any) error {
	st, err := l.kept(query)
	if err != nil {
		return err
	}
	named, err := l.bind(args)
	if err != nil {
		return err
	}
	_, err = st.(driver.StmtExecContext).ExecContext(l.watched(ctx), named)
	return err
}

// bind converts arguments for the driver as database/sql would do, for the types in use
// here.
func (l *handle) bind(args []any) ([]driver.NamedValue, error) {
	l.args = l.args[:0]
	for i, a := range args {
		switch v := a.(type) {
		case nil, int64, string, []byte:
		case int:
			a = int64(v)
		case uint32:
			a = int64(v)
		case bool:
			a = int64(bit(v))
		default:
			return nil, fmt.Errorf("bind %T", a)
		}
		l.args = append(l.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return l.args, nil
}

func (l *handle) each(ctx context.Context, query string, args []any, f func(r row) error) error {
	st, err := l.kept(query)
	if err != nil {
		return err
	}
	named, err := l.bind(args)
	if err != nil {
		return err
	}
	rows, err := st.(driver.StmtQueryContext).QueryContext(l.watched(ctx), named)
	if err != nil {
		return err
	}
	defer rows.Close() // its error is that of the last read
	columns := rows.Columns()
	r := row{columns, make([]driver.Value, len(columns))}
	for {
		if err = ctx.Err(); err == nil {
			err = rows.Next(r.values)
		}
		if err == nil {
			err = f(r)
		}
		if err == io.EOF || err == errEnough {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (l *handle) queryRow(ctx context.Context, query string, args []any, dst ...any) error {
	found := false
	err := l.each(ctx, query, args, func(r row) error {
		found = true
		return cmp.Or(r.Scan(dst...), errEnough)
	})
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}

// patience sets how long statements wait for other processes.
func (l *handle) patience(ctx context.Context, ms int) error {
	return storeError("set patience", l.exec(ctx, fmt.Sprintf(`PRAGMA busy_timeout = %d`, ms)))
}

// snapshot runs f on one consistent state, without writing.
func (l *handle) snapshot(ctx context.Context, f func(q querier) error) error {
	if err := l.exec(context.WithoutCancel(ctx), beginReading); err != nil {
		return storeError("begin reading", err)
	}
	defer l.rollback() // nothing was written
	return f(l)
}

// rollback ends a transaction without keeping its writes. When a context ends, the driver
// may interrupt the next statement instead of the last one, so rollback tries again. A
// transaction that stays open would make every later one fail.
func (l *handle) rollback() {
	for range 10 {
		err := l.exec(context.Background(), rollback)
		if resultCode(err)&0xff != sqliteInterrupt { // SQLite may also have rolled back already
			return
		}
	}
}

func (l *handle) close() error {
	return errors.Join(l.forget(), l.conn.Close())
}

// forget closes the statements.
func (l *handle) forget() error {
	var errs []error
	for _, st := range l.stmts {
		errs = append(errs, st.Close())
	}
	return errors.Join(errs...)
}

// row is a row of a query.
type row struct {
	columns []string
	values  []driver.Value
}

// Scan stores the columns in dst.
func (r row) Scan(dst ...any) error {
	if len(dst) != len(r.values) {
		return fmt.Errorf("scan %d columns into %d", len(r.values), len(dst))
	}
	for i, d := range dst {
		if err := assign(d, r.values[i]); err != nil {
			return fmt.Errorf("column %s: %w", r.columns[i], err)
		}
	}
	return nil
}
