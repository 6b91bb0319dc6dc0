package arch

// Packages lists the packages of ours that each package may import besides itself. Tests
// may import any package. A folder that is not listed is a breach; a new package is named
// after a noun of the domain.
func Packages() map[string][]string {
	return map[string][]string{
		// Leaves: types and rules,
		"session": {},
		// the redaction of secrets,
		"redact": {},
		// os.Root where the system supports it,
		"subtree": {},
		// how a shell reads a text,
		"shell": {},

		// the process that a pid means,
		"process": {},
		// the confinement of commands,
		"sandbox": {},
		// and the tools of a model.
		"tool": {"session"},

		// Use cases declare small interfaces and import no adapter.
		"engine": {"session", "redact"},
		"resume": {"session", "redact"},
		"agent":  {"session", "tool"},
		"policy": {"session", "shell"},
		"outbox": {"session", "redact"},

		// Adapters implement those interfaces. They import neither use cases nor one
		// another.
		"local":            {"session", "redact", "migrations"},
		"remote":           {"session", "redact", "migrations"},
		"lock":             {"session", "redact", "process"},
		"workspace":        {"session", "redact", "subtree"},
		"provider/command": {"session", "redact", "subtree", "process", "sandbox"},
		"migrations":       {},
		// the files of a workspace that a person trusts
		"trust": {"session", "subtree"},

		// Packages that serve the command line.
		"plan":   {"session", "strictyaml", "shell"},
		"config": {"session", "strictyaml", "subtree"},
		// Strict YAML with the places of errors.
		"strictyaml": {"session", "redact"},

		// app wires use cases to adapters for every door. It does not import outbox and
		// remote: programs that link app then start quickly, without PostgreSQL's driver
		// and metrics.
		"app": {"session", "redact", "shell", "config", "engine", "resume", "local", "lock", "workspace", "provider/command", "sandbox", "policy", "subtree", "trust"},

		// Doors, and the package that writes their answers, import neither use cases nor
		// adapters.
		"terminal": {"app", "session", "redact"},
		"mcp":      {"app", "session", "terminal", "tool"},
		"cli":      {"app", "session", "redact", "plan", "config", "terminal", "process"},

		// The commands of acode-sync are the exception. They wire the packages that app
		// must not link: a source of this store, the syncer and the server.
		"cli/sync": {"app", "cli", "session", "local", "outbox", "remote", "terminal"},

		// The commands of acode-agent, and the configuration files of agents.
		"cli/agent":   {"agent", "app", "cli", "cli/install", "config", "mcp", "plan", "provider/anthropic", "provider/ollama", "provider/openai", "provider/script", "provider/script/server", "provider/wire", "session", "terminal"},
		"cli/install": {"session"},

		// A model that follows a script, and a server of one for tests of agents.
		"provider/script":        {"provider/script/server", "session"},
		"provider/script/server": {},

		// Models behind HTTP, and how they are reached and their streams read.
		"provider/wire":      {"session", "redact"},
		"provider/openai":    {"provider/wire", "session"},
		"provider/anthropic": {"provider/wire", "session"},
		"provider/ollama":    {"provider/wire", "session"},

		// Programs: main functions.
		"cmd/acode":       {"cli"},
		"cmd/acode-sync":  {"cli/sync"},
		"cmd/acode-agent": {"cli/agent"},

		// Scaffolding of tests; the program never imports it.
		"internal/arch":  {},
		"internal/crash": {},
		// A disk whose power can be cut.
		"internal/disk":    {},
		"internal/history": {"session"},
		"internal/script":  {},
		// Tests that each provider of models passes.
		"internal/conformance": {"engine", "provider/script/server", "provider/wire", "session"},
		// An agent without a model.
		"internal/scripted": {},
		// A kernel that refuses system calls.
		"internal/kernel": {},
		// A client of a server of tools.
		"internal/caller": {},
		// A private PostgreSQL.
		"internal/pgtest": {},
		// A proxy that understands the protocol of PostgreSQL.
		"internal/pgwire": {},

		// Campaigns of tests, each with its own program.
		"internal/torture":  {"internal/crash", "internal/scripted", "internal/disk", "internal/torture/model", "internal/torture/scene", "internal/torture/people"},
		"internal/campaign": {},
		"internal/faults":   {},
		"internal/bench":    {"app", "config", "provider/command", "session", "local", "resume", "workspace", "internal/caller", "internal/crash", "internal/disk", "redact", "outbox", "remote", "internal/pgwire"},
		"internal/drain":    {},
		"internal/ollama":   {},
		"internal/e2e":      {"provider/script/server", "internal/caller"},
		"internal/reqs":     {},
		"internal/mutants":  {},
		"internal/deploy":   {},
		"internal/install":  {},
		"internal/peer":     {},

		// Parts of torture: plans and the ends that they must reach.
		"internal/torture/model": {},
		// The place of a session and the observations made there.
		"internal/torture/scene": {"internal/torture/model"},
		// Random actions of people.
		"internal/torture/people": {"internal/torture/model", "internal/torture/scene"},
	}
}

// Modules lists the folders that may import each third-party module or subfolder of one.
// The longest matching name counts. Tests are exempt.
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
		"github.com/aymanbagabas/go-udiff":   {"workspace", "cli/install"},
		"github.com/pelletier/go-toml/v2":    {"cli/install"},
		"github.com/dustin/go-humanize":      {"terminal", "cli/sync"},
		"golang.org/x/term":                  {"terminal", "cli"},
		"github.com/spf13/cobra":             {"cli"},
		"github.com/spf13/pflag":             {"cli"},
		"golang.org/x/sys":                   {"local", "lock", "workspace", "provider", "subtree", "process", "sandbox", "mcp", "internal"},
		"mvdan.cc/sh/v3":                     {"shell"},

		"github.com/modelcontextprotocol/go-sdk": {"mcp"},

		"github.com/hanwen/go-fuse/v2": {"internal/disk"},

		// Libraries of tests, which scaffolding shares.
		"github.com/google/go-cmp":        {"internal"},
		"pgregory.net/rapid":              {"internal"},
		"github.com/rogpeppe/go-internal": {"internal"},
		"github.com/creack/pty":           {"provider", "internal"},
	}
}

// TemplateUsers lists the modules that may link text/template. None of them executes a
// template here, so the linker still drops unused methods.
func TemplateUsers() []string {
	return []string{"html/template", "text/template", "github.com/spf13/cobra", "github.com/pressly/goose/v3"}
}
