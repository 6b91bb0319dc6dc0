package local

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"modernc.org/sqlite"
)

// querier reads: a link, or what stands for one.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) row
}

// link is one connection to a database, for one goroutine at a time. It does without the pool of
// database/sql: its locks, its copies and its watch on every call cost as much as a statement,
// and here nobody shares a connection.
type link struct {
	conn  driver.Conn
	stmts map[string]driver.Stmt // those that are kept
	args  []driver.NamedValue    // of the call in progress
}

// openLink opens the database that name, a DSN, names.
func openLink(name string) (*link, error) {
	conn, err := new(sqlite.Driver).Open(name)
	if err != nil {
		return nil, err
	}
	return &link{conn: conn, stmts: map[string]driver.Stmt{}}, nil
}

// control gives access to the file behind the connection.
func (l *link) control() (sqlite.FileControl, error) {
	fc, ok := l.conn.(sqlite.FileControl)
	if !ok {
		return nil, errors.New("the driver has no file control")
	}
	return fc, nil
}

// keepWAL stops the last close from deleting the log, which costs the next process the growth
// of a new one.
func (l *link) keepWAL() error {
	fc, err := l.control()
	if err == nil {
		_, err = fc.FileControlPersistWAL("main", 1)
	}
	return err
}

// kept gives the statement of a query that is run often.
func (l *link) kept(query string) (driver.Stmt, error) {
	if st := l.stmts[query]; st != nil {
		return st, nil
	}
	st, err := l.conn.Prepare(query)
	if err == nil {
		l.stmts[query] = st
	}
	return st, err
}

// exec runs a statement that is kept.
func (l *link) exec(ctx context.Context, query string, args ...any) error {
	st, err := l.kept(query)
	if err != nil {
		return err
	}
	return l.run(ctx, st, args)
}

// ExecContext runs statements once.
func (l *link) ExecContext(ctx context.Context, query string, args ...any) error {
	st, err := l.conn.Prepare(query)
	if err != nil {
		return err
	}
	err = l.run(ctx, st, args)
	if cerr := st.Close(); err == nil {
		err = cerr
	}
	return err
}

func (l *link) run(ctx context.Context, st driver.Stmt, args []any) error {
	named, err := l.bind(args)
	if err != nil {
		return err
	}
	_, err = st.(driver.StmtExecContext).ExecContext(ctx, named)
	return err
}

// bind makes arguments what the driver takes: as database/sql would, for the types in use here.
func (l *link) bind(args []any) ([]driver.NamedValue, error) {
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

// QueryContext reads rows, which the caller closes.
func (l *link) QueryContext(ctx context.Context, query string, args ...any) (*rows, error) {
	st, err := l.conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	r, err := l.query(ctx, st, args)
	if err != nil {
		_ = st.Close() // the first error says more
		return nil, err
	}
	r.once = st
	return r, nil
}

// QueryRowContext reads one row; sql.ErrNoRows says that there is none.
func (l *link) QueryRowContext(ctx context.Context, query string, args ...any) row {
	r, err := l.QueryContext(ctx, query, args...)
	return row{r, err}
}

// query reads through a statement that nothing reads through yet.
func (l *link) query(ctx context.Context, st driver.Stmt, args []any) (*rows, error) {
	named, err := l.bind(args)
	if err != nil {
		return nil, err
	}
	r, err := st.(driver.StmtQueryContext).QueryContext(ctx, named)
	if err != nil {
		return nil, err
	}
	return &rows{ctx: ctx, rows: r, values: make([]driver.Value, len(r.Columns()))}, nil
}

// queryRow reads one row through a statement that is kept.
func (l *link) queryRow(ctx context.Context, query string, args []any, dst ...any) error {
	st, err := l.kept(query)
	if err != nil {
		return err
	}
	r, err := l.query(ctx, st, args)
	return row{r, err}.Scan(dst...)
}

// patience sets for how long statements wait for other processes.
func (l *link) patience(ctx context.Context, ms int) error {
	return storeError("set patience", l.ExecContext(ctx, fmt.Sprintf(`PRAGMA busy_timeout = %d`, ms)))
}

// snapshot runs f on one consistent state, without writing.
func (l *link) snapshot(ctx context.Context, f func(q querier) error) error {
	if err := l.exec(context.WithoutCancel(ctx), beginReading); err != nil {
		return storeError("begin reading", err)
	}
	defer l.rollback() // nothing was written
	return f(l)
}

// rollback ends a transaction that wrote nothing worth keeping. The driver interrupts whatever
// runs when a context ends, which may come late enough to meet the next statement: a
// transaction that stayed open would refuse every later one.
func (l *link) rollback() {
	for range 10 {
		err := l.exec(context.Background(), rollback)
		if resultCode(err)&0xff != sqliteInterrupt { // SQLite may also have rolled back by itself
			return
		}
	}
}

func (l *link) close() error {
	var errs []error
	for _, st := range l.stmts {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, l.conn.Close())...)
}

// rows are what a query gives.
type rows struct {
	ctx    context.Context // of the query
	rows   driver.Rows
	once   driver.Stmt // ends with them; nil: it is kept
	values []driver.Value
	err    error
	over   bool
}

// Next goes to the next row.
func (r *rows) Next() bool {
	if r.over {
		return false
	}
	if r.err = r.ctx.Err(); r.err == nil {
		r.err = r.rows.Next(r.values)
	}
	if r.err == nil {
		return true
	}
	if r.err == io.EOF {
		r.err = nil
	}
	_ = r.Close() // an error of reading says more
	return false
}

// Scan reads the columns of the row.
func (r *rows) Scan(dst ...any) error {
	if len(dst) != len(r.values) {
		return fmt.Errorf("scan %d columns into %d", len(r.values), len(dst))
	}
	for i, d := range dst {
		if err := assign(d, r.values[i]); err != nil {
			return fmt.Errorf("column %s: %w", r.rows.Columns()[i], err)
		}
	}
	return nil
}

// Err is why there is no next row; nil at the end.
func (r *rows) Err() error { return r.err }

// Columns names the columns.
func (r *rows) Columns() ([]string, error) { return r.rows.Columns(), nil }

// Close may be called more than once.
func (r *rows) Close() error {
	if r.over {
		return nil
	}
	r.over = true
	err := r.rows.Close()
	if r.once != nil {
		err = errors.Join(err, r.once.Close())
	}
	return err
}

// row is the first row of a query.
type row struct {
	rows *rows
	err  error
}

// Scan reads the row.
func (r row) Scan(dst ...any) error {
	if r.err != nil {
		return r.err
	}
	defer func() { _ = r.rows.Close() }() // it was only read
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return sql.ErrNoRows
	}
	return r.rows.Scan(dst...)
}

// keeper is a link that keeps the statements of what it reads, whose rows are read one after
// the other. What it reads is short: a watch on the context would cost more.
type keeper struct{ *link }

// QueryContext is that of link.
func (k keeper) QueryContext(ctx context.Context, query string, args ...any) (*rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	st, err := k.kept(query)
	if err != nil {
		return nil, err
	}
	return k.query(context.WithoutCancel(ctx), st, args)
}

// QueryRowContext is that of link.
func (k keeper) QueryRowContext(ctx context.Context, query string, args ...any) row {
	r, err := k.QueryContext(ctx, query, args...)
	return row{r, err}
}
