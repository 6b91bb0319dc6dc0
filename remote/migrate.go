package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/acode-dev/acode/migrations"
	"github.com/acode-dev/acode/session"
)

// versionTable is where goose records the applied migrations.
const versionTable = Schema + ".goose_db_version"

// Migrated is the result of Migrate: the versions of the schema before and after. From is
// 0 if there was no schema.
type Migrated struct {
	From, To int
}

// Migrate brings the server's schema to the version of this program, in one transaction
// per migration. Then it always installs this program's projection functions, and fills
// the typed tables with events of types that the server did not know before. Two calls
// at once wait for one another. With a dryRun it writes the SQL there and changes
// nothing. A newer server stays as it is: session.ErrRemoteOld.
func Migrate(ctx context.Context, o Options, dryRun io.Writer) (Migrated, error) {
	return migrateTo(ctx, o, schema{migrations.Postgres(), migrations.PostgresVersion, migrations.PostgresProjection()}, dryRun)
}

// schema is the target of a migration.
type schema struct {
	files      fs.FS
	version    int
	projection string
}

func migrateTo(ctx context.Context, o Options, want schema, dryRun io.Writer) (Migrated, error) {
	a, err := connect(ctx, o)
	if err != nil {
		return Migrated{}, err
	}
	defer a.close()
	m, err := a.migrate(ctx, want, dryRun)
	if err == nil && dryRun == nil {
		err = a.projectAll(ctx)
	}
	return m, a.failed("migrate the server", err)
}

func (a *admin) migrate(ctx context.Context, want schema, dryRun io.Writer) (Migrated, error) {
	var m Migrated
	// The lock belongs to a transaction, not to a session, and goose uses another
	// connection. Through a pooler a session's lock would stay with a connection that
	// other clients get. A later statement of it must see the migrations.
	tx, err := a.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return m, err
	}
	// It has no effect after the commit.
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	const lock = `SELECT set_config('idle_in_transaction_session_timeout', '0', true), pg_advisory_xact_lock(hashtextextended('acode.migrate', 0))::text`
	if _, err := tx.Exec(ctx, lock); err != nil {
		return m, fmt.Errorf("wait for another migration: %w", err)
	}
	if m.From, err = version(ctx, tx); err != nil {
		return m, err
	}
	m.To = max(m.From, want.version)
	switch {
	case m.From > want.version:
		return m, &session.Error{Code: session.ErrRemoteOld, Next: session.Words("use the version of acode that migrated it, or a newer one"),
			Message: fmt.Sprintf("the server's schema is version %d and this program knows %d; nothing was changed", m.From, want.version)}
	case dryRun != nil:
		return m, printPending(dryRun, want, m.From)
	}
	if err := a.up(ctx, want.files); err != nil {
		return m, err
	}
	if _, err := tx.Exec(ctx, want.projection); err != nil {
		return m, fmt.Errorf("install the projection functions: %w", err)
	}
	return m, tx.Commit(ctx)
}

// version returns the schema's version, or 0 if there is no schema.
func version(ctx context.Context, tx pgx.Tx) (int, error) {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass($1::text) IS NOT NULL`, versionTable).Scan(&there); err != nil || !there {
		return 0, err
	}
	var v int
	err := tx.QueryRow(ctx, `SELECT coalesce(max(version_id), 0)::integer FROM acode.goose_db_version WHERE is_applied`).Scan(&v)
	return v, err
}

// up applies the missing migrations, over its own connection.
func (a *admin) up(ctx context.Context, files fs.FS) error {
	db := stdlib.OpenDB(*a.cfg)
	// every migration has committed or failed by then
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, migrations.PostgresRoles()); err != nil {
		return fmt.Errorf("make roles and schema: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithDisableGlobalRegistry(true), goose.WithTableName(versionTable))
	if err != nil {
		return fmt.Errorf("prepare migrations: %w", err)
	}
	_, err = p.Up(ctx)
	return err
}

// printPending writes the SQL of the migrations above version from, and of the projection
// functions.
func printPending(w io.Writer, want schema, from int) error {
	names, err := fs.Glob(want.files, "*.sql")
	if err != nil {
		return err
	}
	if from < len(names) {
		if _, err := fmt.Fprintf(w, "-- roles and schema\n%s\n", migrations.PostgresRoles()); err != nil {
			return err
		}
	}
	for _, name := range names[min(from, len(names)):] {
		b, err := fs.ReadFile(want.files, name)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "-- %s\n%s\n", name, b); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(w, "-- projection functions\n%s\n", want.projection)
	return err
}

// admin is a connection for an administrator's commands.
type admin struct {
	cfg   *pgx.ConnConfig
	conn  *pgx.Conn
	scrub scrubber
}

// connect opens a connection for an administrator's command.
func connect(ctx context.Context, o Options) (*admin, error) {
	cfg, err := parse(o.URL, o.AllowPlaintext)
	if err != nil {
		return nil, err
	}
	a := &admin{cfg: cfg, scrub: newScrubber(&cfg.Config)}
	if a.conn, err = pgx.ConnectConfig(ctx, cfg); err != nil {
		return nil, a.failed("connect", err)
	}
	return a, nil
}

func (a *admin) close() {
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	// no statement is open
	_ = a.conn.Close(ctx)
}

// failed returns an error for people from a failure of an administrator's command. what
// names the command.
func (a *admin) failed(what string, err error) error {
	var done *session.Error
	if err == nil || errors.As(err, &done) {
		return err
	}
	f := classify(err, a.scrub)
	e := &session.Error{Code: session.ErrOffline, Message: what, Cause: f.Cause, Next: session.Words("look at the server, then run the command again; completed steps are kept")}
	var pe *pgconn.PgError
	var ce *pgconn.ConnectError
	switch {
	case errors.As(err, &ce) && f.SQLState == "42704": // undefined_object: a parameter of the address
		e.Code, e.Next = session.ErrConfig, session.Words("check the parameters behind the ? of the address")
	case errors.As(err, &pe) && pe.Code == stateEncoding:
		e.Code, e.Next = session.ErrConfig, session.Words("make the database with ENCODING 'UTF8'")
	case f.SQLState == "3D000": // invalid_catalog_name
		e.Code, e.Next = session.ErrRemoteOld, session.Words("look at the address, or make the database, with the encoding UTF8")
	case f.Class == session.FaultAuth && f.SQLState == "":
		e.Code, e.Next = session.ErrRemoteAuth, session.Words("look at the host of the address, and name the file of the certificate's authority: sslrootcert in the address, or PGSSLROOTCERT")
	case f.Class == session.FaultAuth && strings.HasPrefix(f.SQLState, "28"):
		e.Code, e.Next = session.ErrRemoteAuth, session.Words("check the role in the address and its password in ~/.pgpass")
	case f.Class == session.FaultAuth:
		e.Code, e.Next = session.ErrRemoteAuth, session.Words("use a role that may do this: the owner of the database with CREATEROLE, or a superuser")
	case f.Class == session.FaultUnmigrated || f.Class == session.FaultTooNew:
		e.Code, e.Next = session.ErrRemoteOld, session.Then("bring the server's schema forward first, with", session.MoveMigrate, "")
	}
	return e
}
