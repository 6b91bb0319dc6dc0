package config

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// kind is the type of a key's value.
type kind int

const (
	kindEnum kind = iota + 1
	kindBool
	// a whole number from min to max
	kindCount
	// a whole number, with an optional unit KB, MB, GB, KiB, MiB or GiB
	kindBytes
	// in the syntax of Go
	kindDuration
	// an absolute path; ~/ stands for the user's directory
	kindPath
	// a list of such paths
	kindPaths
	// the URL of a PostgreSQL database, whose password is never shown
	kindServer
	// host:port, or unix: and an absolute path
	kindListen
	// the name of a model; it may be empty
	kindName
	// a whole number of at least 1, or none
	kindLimit
	// an amount of money with at most six decimals, or none; its value is in millionths
	kindMoney
)

// none switches a limit off.
const none = "none"

// key describes one setting. The layers, the schema and the documentation use this
// description.
type key struct {
	path string
	kind kind
	// values lists the valid values of an enum.
	values   []string
	min, max int64
	def      string
	// env replaces the default name ACODE_ and the path.
	env string
	// flag replaces the default name, which is the path.
	flag string
	// project says that a project's file may set the key.
	project bool
	// execution says that the key affects the execution of a session, so Keys returns it.
	execution bool
	doc       string
	set       func(c *Config, v any)
}

// keys returns every setting. A project can set only the resume keys (F1).
func keys() []key {
	return []key{
		{path: "resume.in_progress_strategy", kind: kindEnum, values: []string{"rollback", "retry", "prompt"}, def: "rollback",
			flag: "--in-progress", project: true, execution: true, doc: "What to do with a step that was in progress.",
			set: func(c *Config, v any) { c.Resume.InProgressStrategy = v.(string) }},
		{path: "resume.validate_environment", kind: kindBool, def: "true", project: true, execution: true,
			doc: "Look for changes of files, git state and configuration before a session continues.",
			set: func(c *Config, v any) { c.Resume.ValidateEnvironment = v.(bool) }},
		{path: "resume.changed_files_action", kind: kindEnum, values: []string{"prompt", "continue", "abort"}, def: "prompt",
			flag: "--on-changes", project: true, execution: true, doc: "What to do when files of the session have changed.",
			set: func(c *Config, v any) { c.Resume.ChangedFilesAction = v.(string) }},
		{path: "resume.validation_timeout_seconds", kind: kindCount, min: 1, max: 3600, def: "10", project: true, execution: true,
			doc: "Time limit for validate_environment, in seconds.",
			set: func(c *Config, v any) { c.Resume.ValidationTimeout = time.Duration(v.(int64)) * time.Second }},
		{path: "store.home", kind: kindPath, env: "ACODE_HOME", doc: "Directory of the store. The default is acode in the state directory.",
			set: func(c *Config, v any) { c.Store.Home = v.(string) }},
		{path: "log.dir", kind: kindPath, doc: "Directory of the logs. The default is log in the store's directory.",
			set: func(c *Config, v any) { c.Log.Dir = v.(string) }},
		{path: "log.level", kind: kindEnum, values: []string{"debug", "info", "warn", "error"}, def: "info",
			doc: "Lowest level that is logged.", set: func(c *Config, v any) { c.Log.Level = v.(string) }},
		{path: "log.max_bytes", kind: kindBytes, min: 64 << 10, max: 1 << 40, def: "10485760",
			doc: "Size at which acode begins the next log file.", set: func(c *Config, v any) { c.Log.MaxBytes = v.(int64) }},
		{path: "log.keep", kind: kindCount, min: 0, max: 1000, def: "5",
			doc: "Number of full log files that acode keeps.", set: func(c *Config, v any) { c.Log.Keep = int(v.(int64)) }},
		{path: "lock.wait", kind: kindDuration, def: "0s", flag: "--wait",
			doc: "How long resume waits while another process uses the session or the workspace.", set: func(c *Config, v any) { c.Lock.Wait = v.(time.Duration) }},
		{path: "workspace.allow", kind: kindPaths, doc: "Directories that acode accepts as workspaces although it would refuse them by default.",
			set: func(c *Config, v any) { c.Workspace.Allow = v.([]string) }},
		{path: "workspace.share", kind: kindBool, def: "false", flag: "--share-workspace",
			doc: "Let several sessions execute in one workspace.", set: func(c *Config, v any) { c.Workspace.Share = v.(bool) }},
		{path: "command.max_output_bytes", kind: kindBytes, min: 4 << 10, max: 1 << 40, def: "16777216", execution: true,
			doc: "Bytes that acode keeps of the output of a command, standard output and standard error together. It keeps at least 1 MiB and cuts out the middle.", set: func(c *Config, v any) { c.Command.MaxOutputBytes = v.(int64) }},
		{path: "terminal.color", kind: kindEnum, values: []string{"auto", "always", "never"}, def: "auto",
			doc: "When to colour the output.", set: func(c *Config, v any) { c.Terminal.Color = v.(string) }},
		{path: "key.keyring", kind: kindBool, def: "true", doc: "Keep the store's key in the system's keyring when there is one.",
			set: func(c *Config, v any) { c.Key.Keyring = v.(bool) }},
		{path: "sync.url", kind: kindServer, env: "ACODE_POSTGRES_URL",
			doc: "PostgreSQL database to which sessions are delivered. Without it they stay on this machine.", set: func(c *Config, v any) { c.Sync.URL = v.(string) }},
		{path: "sync.allow_plaintext", kind: kindBool, def: "false",
			doc: "Accept a server on another machine without TLS.", set: func(c *Config, v any) { c.Sync.AllowPlaintext = v.(bool) }},
		{path: "sync.late_after", kind: kindDuration, def: "60s",
			doc: "Age of the oldest pending event above which delivery is late. The health check then exits with 1, and the metric acode_sync_late is 1.", set: func(c *Config, v any) { c.Sync.LateAfter = v.(time.Duration) }},
		{path: "sync.on_parked", kind: kindEnum, values: []string{"wait", "continue"}, def: "wait",
			doc: "How delivery of a session continues after the server refused an event: wait for a person, or continue without the event.", set: func(c *Config, v any) { c.Sync.OnParked = v.(string) }},
		{path: "sync.output", kind: kindEnum, values: []string{"head_tail", "full"}, def: "head_tail",
			doc: "How much of the output of a step is delivered: head and tail, at most 256 KiB, or also the full output that was kept.", set: func(c *Config, v any) { c.Sync.WholeOutputs = v == "full" }},
		{path: "sync.listen", kind: kindListen, def: "127.0.0.1:9464",
			doc: "Where the syncer serves metrics and health: host:port, or unix: and a path.", set: func(c *Config, v any) { c.Sync.Listen = v.(string) }},
		{path: "max_parallel", kind: kindCount, min: 1, max: session.MostParallel, def: "1",
			doc: "How many steps of a session may run at once, unless --max-parallel or the plan says so at the start.", set: func(c *Config, v any) { c.MaxParallel = int(v.(int64)) }},
		{path: "notify", kind: kindPath, doc: "Program that gets a JSON object on standard input when a session needs a person, fails or completes.",
			set: func(c *Config, v any) { c.Notify = v.(string) }},
		{path: "model", kind: kindName, flag: "--model",
			doc: "Name of the model, under models, that prompts ask if they name none.", set: func(c *Config, v any) { c.Model = v.(string) }},
		{path: "approvals.elicitation", kind: kindEnum, values: []string{"off", "allow"}, def: "off",
			doc: "Let an MCP server ask for approvals through its client. Such an answer is not proven to come from a person.", set: func(c *Config, v any) { c.Approvals.Elicitation = v == "allow" }},
		power("write", "allow", "write and change files", func(c *Config) *string { return &c.Approvals.Write }),
		power("delete", "ask", "delete files", func(c *Config) *string { return &c.Approvals.Delete }),
		power("command", "ask", "run commands that do more than read", func(c *Config) *string { return &c.Approvals.Command }),
		power("network", "ask", "run commands that use the network", func(c *Config) *string { return &c.Approvals.Network }),
		power("git", "ask", "run git commands that change the repository", func(c *Config) *string { return &c.Approvals.Git }),
		{path: "approvals.plan", kind: kindEnum, values: []string{"always", "never"}, def: "always",
			doc: "Whether a person approves each plan that a model makes. With never, acode asks only about a plan with a step that a model may not do without a question.",
			set: func(c *Config, v any) { c.Approvals.Plan = v.(string) }},
		{path: "approvals.max_denied", kind: kindCount, min: 1, max: 1000, def: "5",
			doc: "How many calls of a model may be denied before the session pauses.", set: func(c *Config, v any) { c.Approvals.MaxDenied = int(v.(int64)) }},
		{path: "checkpoint.every_calls", kind: kindLimit, def: "10",
			doc: "After how many calls of a model a further checkpoint is written. Each call has one anyway.", set: func(c *Config, v any) { c.Checkpoint.EveryCalls = int(v.(int64)) }},
		{path: "checkpoint.before", kind: kindEnum, values: []string{none, "delete", "network", "git", "all"}, def: none,
			doc: "Before calls of which class of a model a further checkpoint is written; all means each of delete, network and git.", set: func(c *Config, v any) { c.Checkpoint.Before = v.(string) }},
		{path: "limits.turns", kind: kindLimit, def: "200", flag: "--max-turns",
			doc: "How many requests to models a session may make.", set: func(c *Config, v any) { c.Limits.Turns = int(v.(int64)) }},
		{path: "limits.tokens", kind: kindLimit, def: "2000000", flag: "--tokens",
			doc: "How many tokens a session may use, by the numbers of the providers.", set: func(c *Config, v any) { c.Limits.Tokens = v.(int64) }},
		{path: "limits.cost", kind: kindMoney, def: none, flag: "--budget",
			doc: "What a session may cost, by the prices of the models.", set: func(c *Config, v any) { c.Limits.Cost = v.(int64) }},
		{path: "limits.tasks", kind: kindLimit, def: "50",
			doc: "How many tasks a plan of a model may have.", set: func(c *Config, v any) { c.Limits.Tasks = int(v.(int64)) }},
		{path: "limits.time", kind: kindDuration, def: "1h0m0s", doc: "How long a run or a resume with prompts may take, unless --timeout says so; 0s means no limit.",
			set: func(c *Config, v any) { c.Limits.Time = v.(time.Duration) }},
		{path: "sandbox", kind: kindEnum, values: []string{"off", "on"}, def: "off", execution: true,
			doc: "Run the commands of plans in a sandbox. The value at the start of a session holds for all of it. The commands of agents run in a sandbox always, unless their server is started without.", set: func(c *Config, v any) { c.Sandbox = v.(string) }},
	}
}

// power is the key of a class of calls.
func power(class, def, does string, at func(*Config) *string) key {
	return key{path: "approvals." + class, kind: kindEnum, values: []string{"allow", "ask", "deny"}, def: def,
		doc: "Whether a model may " + does + ".", set: func(c *Config, v any) { *at(c) = v.(string) }}
}

func (k key) variable() string {
	if k.env != "" {
		return k.env
	}
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(k.path, ".", "_"))
}

func (k key) flagName() string {
	if k.flag != "" {
		return k.flag
	}
	return "--" + k.path
}

// wants describes the valid values of k.
func (k key) wants() string {
	switch k.kind {
	case kindEnum:
		return "one of: " + strings.Join(k.values, ", ")
	case kindBool:
		return "true or false"
	case kindCount:
		return fmt.Sprintf("a whole number from %d to %d", k.min, k.max)
	case kindBytes:
		return fmt.Sprintf("a number of bytes from %d to %d, such as 10MiB", k.min, k.max)
	case kindDuration:
		return "a duration that is not negative, such as 60s"
	case kindPath:
		return "an absolute path"
	case kindServer:
		return "a URL such as postgres://role@host/database"
	case kindListen:
		return "host:port, or unix: and an absolute path"
	case kindName:
		return "a name"
	case kindLimit:
		return "a whole number of at least 1, or none"
	case kindMoney:
		return "an amount such as 2.50, or none"
	}
	return "a list of absolute paths"
}

// parsed is a value with its canonical text.
type parsed struct {
	text  string
	value any
}

// parse parses the text of a default, a variable or a flag. home replaces ~. Its errors
// follow the name of the key in a message.
func (k key) parse(text, home string) (parsed, error) {
	wrong := fmt.Errorf("must be %s, not %q", k.wants(), text)
	switch k.kind {
	case kindEnum:
		if slices.Contains(k.values, text) {
			return parsed{text, text}, nil
		}
		return parsed{}, wrong
	case kindBool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return parsed{}, wrong
		}
		return parsed{strconv.FormatBool(b), b}, nil
	case kindCount, kindBytes:
		n, ok := parseNumber(text, k.kind == kindBytes)
		if !ok || n < k.min || n > k.max {
			return parsed{}, wrong
		}
		return parsed{strconv.FormatInt(n, 10), n}, nil
	case kindDuration:
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return parsed{}, wrong
		}
		return parsed{d.String(), d}, nil
	case kindPath:
		if text == "" && k.def == "" && k.path != "store.home" {
			return parsed{"", ""}, nil
		}
		p, ok := absolute(text, home)
		if !ok {
			return parsed{}, wrong
		}
		return parsed{p, p}, nil
	case kindServer:
		return k.parseServer(text)
	case kindName:
		if text != "" && !session.ValidName(text) {
			return parsed{}, wrong
		}
		return parsed{text, text}, nil
	case kindListen:
		if !listenable(text) {
			return parsed{}, wrong
		}
		return parsed{text, text}, nil
	case kindLimit, kindMoney:
		if text == none {
			return parsed{none, int64(0)}, nil
		}
		var n int64
		var ok bool
		if k.kind == kindMoney {
			n, ok = micros(text)
		} else {
			n, ok = parseNumber(text, false)
		}
		if !ok || n == 0 {
			return parsed{}, wrong
		}
		return parsed{text, n}, nil
	}
	return k.parsePaths(filepath.SplitList(text), home)
}

func (k key) parsePaths(list []string, home string) (parsed, error) {
	paths := make([]string, 0, len(list))
	for _, text := range list {
		p, ok := absolute(text, home)
		if !ok {
			return parsed{}, fmt.Errorf("must be %s, not %q", k.wants(), text)
		}
		paths = append(paths, p)
	}
	return parsed{strings.Join(paths, string(filepath.ListSeparator)), paths}, nil
}

// absolute returns the clean path of text. ~ stands for the user's directory. It returns
// false if the path is not absolute or not valid.
func absolute(text, home string) (string, bool) {
	if rest, ok := strings.CutPrefix(text, "~"); ok && (rest == "" || rest[0] == '/') && home != "" {
		text = home + rest
	}
	if !filepath.IsAbs(text) || strings.ContainsAny(text, "\x00\n") {
		return "", false
	}
	return filepath.Clean(text), true
}

// micros returns an amount such as 2.50 in millionths. It returns false if text is not an
// amount, or has more than six decimals.
func micros(text string) (int64, bool) {
	whole, part, _ := strings.Cut(text, ".")
	if len(part) > 6 || len(whole) > 9 || whole == "" || strings.HasSuffix(text, ".") {
		return 0, false
	}
	n, err := strconv.ParseUint(whole+part+strings.Repeat("0", 6-len(part)), 10, 63)
	return int64(n), err == nil
}

// parseNumber parses a whole number. If withUnit is set, the number may have a unit of
// size.
func parseNumber(text string, withUnit bool) (int64, bool) {
	factor := int64(1)
	if withUnit {
		for _, u := range []struct {
			name  string
			bytes int64
		}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}} {
			if number, ok := strings.CutSuffix(text, u.name); ok {
				text, factor = strings.TrimSuffix(number, " "), u.bytes
				break
			}
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return 0, false
	}
	return n * factor, true
}
