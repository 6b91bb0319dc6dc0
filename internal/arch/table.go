package arch

// Packages says which packages of ours each package may import besides itself. Tests may
// import what they like. A folder that is not listed is a breach: a new one needs a noun
// of the domain.
func Packages() map[string][]string {
	return map[string][]string{
		// types and rules
		"session": {},
		// a second leaf
		"redact": {},
		// a third: os.Root, where it holds
		"subtree": {},
		// a fourth: what a shell text reads
		"shell": {},

		// a fifth: which process a pid means
		"process": {},

		// Use cases declare small interfaces and know no adapter.
		"engine": {"session", "redact"},
		"resume": {"session", "redact"},
		"outbox": {"session", "redact"},

		// Adapters satisfy those interfaces and know neither use cases nor one another.
		"local":            {"session", "redact", "migrations"},
		"remote":           {"session", "redact", "migrations"},
		"lock":             {"session", "redact", "process"},
		"workspace":        {"session", "redact", "subtree"},
		"provider/command": {"session", "redact", "subtree", "process"},
		"migrations":       {},

		// What serves the command line.
		"plan":   {"session", "strictyaml", "shell"},
		"config": {"session", "strictyaml", "subtree"},
		// YAML without surprises, with the places of errors
		"strictyaml": {"session", "redact"},

		// Wires use cases to adapters, for every door. Without outbox and remote: what
		// links app starts quickly, because it links neither PostgreSQL's driver nor
		// metrics.
		"app": {"session", "redact", "shell", "config", "engine", "resume", "local", "lock", "workspace", "provider/command"},

		// Doors see neither use cases nor adapters, and neither does what writes their
		// answers.
		"terminal": {"app", "session", "redact"},
		"cli":      {"app", "session", "redact", "plan", "config", "terminal", "process"},

		// But for the commands of the one program that delivers, which wire what app must
		// not link: a source of this store, the syncer and the server.
		"cli/sync": {"app", "cli", "session", "local", "outbox", "remote", "terminal"},

		// Programs: main functions.
		"cmd/acode":      {"cli"},
		"cmd/acode-sync": {"cli/sync"},

		// Scaffolding of tests; the program never imports it.
		"internal/arch":  {},
		"internal/crash": {},
		// a disk whose power can be cut
		"internal/disk":    {},
		"internal/history": {"session"},
		"internal/script":  {},
		// a private PostgreSQL
		"internal/pgtest": {},
		// a proxy that understands its protocol
		"internal/pgwire": {},

		// Campaigns of tests with a program of their own.
		"internal/torture":  {"internal/crash", "internal/disk", "internal/torture/model", "internal/torture/scene", "internal/torture/people"},
		"internal/campaign": {},
		"internal/faults":   {},
		"internal/bench":    {"session", "local", "resume", "workspace", "internal/crash", "internal/disk", "redact", "outbox", "remote", "internal/pgwire"},
		"internal/drain":    {},
		"internal/reqs":     {},
		"internal/mutants":  {},
		"internal/deploy":   {},
		"internal/install":  {},

		// Rooms of torture.
		// plans, and where each must end
		"internal/torture/model": {},
		// where a session happens, and what can be seen there
		"internal/torture/scene": {"internal/torture/model"},
		// what people do, at random
		"internal/torture/people": {"internal/torture/model", "internal/torture/scene"},
	}
}

// Modules says which folders may import each third-party module, or its subfolder where
// that is named; the longest name that fits counts. Tests are exempt.
func Modules() map[string][]string {
	return map[string][]string{
		"modernc.org/libc":                   {"local"},
		"modernc.org/sqlite":                 {"local"},
		"github.com/pressly/goose/v3":        {"local", "remote"},
		"github.com/jackc/pgx/v5":            {"remote", "internal"},
		"github.com/cenkalti/backoff/v4":     {"outbox"},
		"github.com/prometheus":              {"outbox", "cli/sync"},
		"github.com/coreos/go-systemd/v22":   {"cli/sync"},
		"github.com/klauspost/compress/zstd": {"local", "remote"},
		"github.com/zalando/go-keyring":      {"local"},
		"github.com/gofrs/flock":             {"lock"},
		"go.yaml.in/yaml/v4":                 {"strictyaml"},
		"github.com/aymanbagabas/go-udiff":   {"workspace"},
		"github.com/dustin/go-humanize":      {"terminal", "cli/sync"},
		"golang.org/x/term":                  {"terminal", "cli"},
		"github.com/spf13/cobra":             {"cli"},
		"github.com/spf13/pflag":             {"cli"},
		"golang.org/x/sys":                   {"local", "lock", "workspace", "provider", "subtree", "process", "internal"},
		"mvdan.cc/sh/v3":                     {"shell"},

		"github.com/hanwen/go-fuse/v2": {"internal/disk"},

		// Libraries of tests, which scaffolding shares.
		"pgregory.net/rapid":              {"internal"},
		"github.com/rogpeppe/go-internal": {"internal"},
		"github.com/creack/pty":           {"provider", "internal"},
	}
}

// TemplateUsers are the modules that may link text/template: neither executes a template
// here, so that the linker still drops methods that nobody calls.
func TemplateUsers() []string {
	return []string{"html/template", "text/template", "github.com/spf13/cobra", "github.com/pressly/goose/v3"}
}
