package remote

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/acode-dev/acode/session"
)

// Device is a login role that may deliver. Its sessions are its own: no other device
// extends, fences or reads them.
type Device struct {
	Name string
	// Enabled is set if the role may deliver. The server's owner may deliver too, but is
	// no device.
	Enabled bool
	// Expired is set if the password is past its VALID UNTIL date.
	Expired  bool
	Sessions int64
	Events   int64
	// Last is the time of the last delivery; zero means never.
	Last time.Time
}

// validDevice reports whether name may be the name of a role. Such a name never needs
// quotes, and PostgreSQL has not reserved it.
func validDevice(name string) bool {
	return regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`).MatchString(name) && !strings.HasPrefix(name, "pg_") && name != "none" && name != "public"
}

// AddDevice makes a login role that may deliver, and returns its password, which is
// stored nowhere. A revoked device comes back with a new password and its sessions. An
// enabled device is session.ErrUsage. An expired VALID UNTIL date does not apply to the
// new password.
func AddDevice(ctx context.Context, o Options, name string) (password string, err error) {
	err = inTx(ctx, o, "add the device", func(a *admin, tx pgx.Tx) error {
		there, enabled, err := a.device(ctx, tx, name)
		if err != nil {
			return err
		}
		if enabled {
			return &session.Error{Code: session.ErrUsage, Message: "the device " + name + " is there already; nothing was changed", Next: session.Words("choose another name, or revoke it first")}
		}
		password = rand.Text()
		verb := "CREATE"
		if there {
			verb = "ALTER"
		}
		role := pgx.Identifier{name}.Sanitize()
		var expired bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1 AND rolvaliduntil <= now())`, name).Scan(&expired); err != nil {
			return err
		}
		until := ""
		if expired {
			until = " VALID UNTIL 'infinity'"
		}
		// The password itself stays here: the server may log a statement.
		if _, err := tx.Exec(ctx, fmt.Sprintf(`%s ROLE %s LOGIN PASSWORD '%s'%s`, verb, role, scram(password), until)); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `GRANT acode_writer TO `+role)
		return err
	})
	if err != nil {
		return "", err
	}
	return password, nil
}

// RevokeDevice takes away a device's right to log in, and ends its connections. Its role
// stays, because its sessions are named after it. A device that is not enabled is
// session.ErrUsage.
func RevokeDevice(ctx context.Context, o Options, name string) error {
	err := inTx(ctx, o, "revoke the device", func(a *admin, tx pgx.Tx) error {
		_, enabled, err := a.device(ctx, tx, name)
		if err != nil {
			return err
		}
		if !enabled {
			return &session.Error{Code: session.ErrUsage, Message: "there is no device " + name + " that is enabled; nothing was changed", Next: session.Then("look at", session.MoveDevices, "")}
		}
		role := pgx.Identifier{name}.Sanitize()
		if _, err := tx.Exec(ctx, `REVOKE acode_writer FROM `+role); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, fmt.Sprintf(`ALTER ROLE %s NOLOGIN PASSWORD NULL`, role))
		return err
	})
	if err != nil {
		return err
	}
	return endConnections(ctx, o, name)
}

// endConnections ends the open connections of a revoked device: the server checks the
// right to log in only once.
func endConnections(ctx context.Context, o Options, name string) error {
	return inTx(ctx, o, "end the connections of the device, which can make no new ones", func(_ *admin, tx pgx.Tx) error {
		var ours bool
		if err := tx.QueryRow(ctx, `SELECT pg_has_role($1::text, 'USAGE')`, name).Scan(&ours); err != nil {
			return err
		}
		// Only a member may end them. An operator who is no superuser becomes a member
		// for that.
		role := pgx.Identifier{name}.Sanitize()
		if !ours {
			if _, err := tx.Exec(ctx, `GRANT `+role+` TO CURRENT_USER`); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1 AND pid <> pg_backend_pid()`, name)
		if err == nil && !ours {
			_, err = tx.Exec(ctx, `REVOKE `+role+` FROM CURRENT_USER`)
		}
		return err
	})
}

// ListDevices lists the devices and other roles that delivered, by name.
func ListDevices(ctx context.Context, o Options) ([]Device, error) {
	a, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	defer a.close()
	const list = `SELECT n.name, coalesce(r.rolcanlogin AND has_function_privilege(r.oid, 'acode.ingest'::regproc, 'EXECUTE'), false),
    coalesce(r.rolvaliduntil <= now(), false), coalesce(h.sessions, 0), coalesce(h.events, 0), h.last
FROM (SELECT m.rolname AS name FROM pg_auth_members g JOIN pg_roles w ON w.oid = g.roleid JOIN pg_roles m ON m.oid = g.member
    WHERE w.rolname = 'acode_writer' UNION SELECT owner FROM acode.heads) n
LEFT JOIN pg_roles r ON r.rolname = n.name
LEFT JOIN (SELECT owner, count(*) AS sessions, sum(last_seq)::bigint AS events, max(updated_at) AS last FROM acode.heads GROUP BY owner) h ON h.owner = n.name
ORDER BY 1`
	var out []Device
	var d Device
	var last *time.Time
	err = a.each(ctx, list, nil, []any{&d.Name, &d.Enabled, &d.Expired, &d.Sessions, &d.Events, &last}, func() error {
		if d.Last = (time.Time{}); last != nil {
			d.Last = last.UTC()
		}
		out = append(out, d)
		return nil
	})
	return out, a.failed("list the devices", err)
}

// device looks a role up. It refuses a role that is no device, and an invalid name.
func (a *admin) device(ctx context.Context, tx pgx.Tx, name string) (there, enabled bool, err error) {
	if !validDevice(name) {
		return false, false, &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("%q is not a valid name of a device", name), Next: session.Words("use at most 63 of a-z, 0-9 and _, beginning with a letter and not with pg_; PostgreSQL reserves none and public")}
	}
	var ours, able bool
	const look = `SELECT r.rolcanlogin AND EXISTS (SELECT 1 FROM pg_auth_members m WHERE m.member = r.oid AND m.roleid = 'acode_writer'::regrole),
    NOT r.rolsuper AND NOT r.rolcreaterole AND (EXISTS (SELECT 1 FROM pg_auth_members m WHERE m.member = r.oid AND m.roleid = 'acode_writer'::regrole)
        OR EXISTS (SELECT 1 FROM acode.heads h WHERE h.owner = r.rolname) OR NOT r.rolcanlogin AND r.rolname NOT IN ('acode_owner', 'acode_writer', 'acode_reader'))
FROM pg_roles r WHERE r.rolname = $1`
	switch err := tx.QueryRow(ctx, look, name).Scan(&able, &ours); {
	case err == pgx.ErrNoRows:
		return false, false, nil
	case err != nil:
		return false, false, err
	case !ours:
		return true, false, &session.Error{Code: session.ErrUsage, Message: "the role " + name + " is there and is no device; nothing was changed", Next: session.Words("choose another name")}
	}
	return true, able, nil
}

// inTx runs f in one transaction of an administrator's connection.
func inTx(ctx context.Context, o Options, what string, f func(*admin, pgx.Tx) error) error {
	a, err := connect(ctx, o)
	if err != nil {
		return err
	}
	defer a.close()
	return a.failed(what, pgx.BeginFunc(ctx, a.conn, func(tx pgx.Tx) error { return f(a, tx) }))
}

// scramRounds is PostgreSQL's default.
const scramRounds = 4096

// scram returns the verifier that PostgreSQL stores for a password (RFC 5803).
func scram(password string) string {
	salt := make([]byte, 16)
	// it never fails
	_, _ = rand.Read(salt)
	salted, err := pbkdf2.Key(sha256.New, password, salt, scramRounds, sha256.Size)
	if err != nil {
		panic("remote: PBKDF2 with fixed lengths: " + err.Error())
	}
	mac := func(text string) []byte {
		m := hmac.New(sha256.New, salted)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	stored := sha256.Sum256(mac("Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", scramRounds, b64(salt), b64(stored[:]), b64(mac("Server Key")))
}
