package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/session"
)

func sources(user, project string, environ ...string) config.Sources {
	s := config.Sources{UserFile: "/u/config.yml", ProjectFile: "/w/.agent/config.yml", Environ: append([]string{"HOME=/home/me", "XDG_STATE_HOME=/state"}, environ...)}
	if user != "" {
		s.UserData = []byte(user)
	}
	if project != "" {
		s.ProjectData = []byte(project)
	}
	return s
}

func load(t *testing.T, s config.Sources) *config.Loaded {
	t.Helper()
	l, err := config.Load(s)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return l
}

func value(l *config.Loaded, key string) config.Value {
	return l.Values[slices.IndexFunc(l.Values, func(v config.Value) bool { return v.Key == key })]
}

func TestDefaults(t *testing.T) {
	l := load(t, config.Sources{Getenv: func(name string) string { return map[string]string{"XDG_STATE_HOME": "/state"}[name] }})
	want := config.Config{
		Resume: config.Resume{InProgressStrategy: "rollback", ValidateEnvironment: true, ChangedFilesAction: "prompt", ValidationTimeout: 10 * time.Second},
		Store:  config.Store{Home: "/state/acode"}, Log: config.Log{Dir: "/state/acode/log", Level: "info", MaxBytes: 10 << 20, Keep: 5},
		Workspace: config.Workspace{Allow: []string{}}, Command: config.Command{MaxOutputBytes: 16 << 20},
		Terminal: config.Terminal{Color: "auto"}, Key: config.Key{Keyring: true}, Sandbox: "off", MaxParallel: 1,
		Sync:       config.Sync{LateAfter: time.Minute, OnParked: "wait", Listen: "127.0.0.1:9464"},
		Approvals:  config.Approvals{Write: "allow", Delete: "ask", Command: "ask", Network: "ask", Git: "ask", Plan: "always", MaxDenied: 5},
		Checkpoint: config.Checkpoint{EveryCalls: 10, Before: "none"},
		Limits:     config.Limits{Turns: 200, Tokens: 2_000_000, Tasks: 50, Time: time.Hour},
	}
	if diff := cmp.Diff(want, l.Config); diff != "" {
		t.Errorf("Load of nothing (-want +got):\n%s", diff)
	}
	for _, v := range l.Values {
		if v.Origin != "default" {
			t.Errorf("Load of nothing: %s comes from %q", v.Key, v.Origin)
		}
	}
	if l.Warnings == nil || len(l.Warnings) > 0 {
		t.Errorf("Load of nothing: got warnings %#v, want an empty list", l.Warnings)
	}
}

func TestEveryKeyFromAFile(t *testing.T) {
	l := load(t, sources(`# all of them
resume:
  in_progress_strategy: retry
  validate_environment: false
  changed_files_action: "abort"
  validation_timeout_seconds: 20
store: {home: ~/store}
log:
  dir: /logs/../log
  level: warn
  max_bytes: 2MiB
  keep: 0
lock:
  wait: 1m
workspace:
  allow:
    - /a
    - "~"
  share: true
command:
  max_output_bytes: 5000
terminal:
  color: never
key:
  keyring: false
sync:
  url: postgres://me:hunter22@db/acode
  allow_plaintext: true
  late_after: 5m
  on_parked: continue
  output: full
  listen: unix:/run/acode.sock
approvals: {elicitation: allow, write: ask, delete: deny, command: allow, network: deny, git: allow, plan: never, max_denied: 9}
checkpoint: {every_calls: 5, before: all}
limits: {turns: 7, tasks: 3, tokens: none, cost: 2.50, time: 5m}
sandbox: off
max_parallel: 3
`, ""))
	want := config.Config{
		Resume: config.Resume{InProgressStrategy: "retry", ChangedFilesAction: "abort", ValidationTimeout: 20 * time.Second},
		Store:  config.Store{Home: "/home/me/store"}, Log: config.Log{Dir: "/log", Level: "warn", MaxBytes: 2 << 20},
		Lock: config.Lock{Wait: time.Minute}, Workspace: config.Workspace{Allow: []string{"/a", "/home/me"}, Share: true},
		Command: config.Command{MaxOutputBytes: 5000}, Terminal: config.Terminal{Color: "never"}, Sandbox: "off", MaxParallel: 3,
		Sync:       config.Sync{URL: "postgres://me:hunter22@db/acode", AllowPlaintext: true, LateAfter: 5 * time.Minute, OnParked: "continue", WholeOutputs: true, Listen: "unix:/run/acode.sock"},
		Approvals:  config.Approvals{Elicitation: true, Write: "ask", Delete: "deny", Command: "allow", Network: "deny", Git: "allow", Plan: "never", MaxDenied: 9},
		Checkpoint: config.Checkpoint{EveryCalls: 5, Before: "all"},
		Limits:     config.Limits{Turns: 7, Tasks: 3, Cost: 2_500_000, Time: 5 * time.Minute},
	}
	if diff := cmp.Diff(want, l.Config); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
	wantValue := config.Value{Key: "workspace.allow", Value: "/a:/home/me", Origin: "/u/config.yml:16"}
	if diff := cmp.Diff(wantValue, value(l, "workspace.allow")); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
	if len(l.Warnings) > 0 {
		t.Errorf("Load: got warnings %q, want none for the user's own file", l.Warnings)
	}
}

func TestEmptyFiles(t *testing.T) {
	for _, text := range []string{"\n", "# nothing\n", "---\n", "resume:\n", "\ufeffresume: {}\n", "~\n", "{}"} {
		if got := load(t, sources(text, text)).Config.Resume.InProgressStrategy; got != "rollback" {
			t.Errorf("Load of %q: got %q", text, got)
		}
	}
}

func TestOrigins(t *testing.T) {
	s := sources("log:\n  level: warn\nresume:\n  in_progress_strategy: retry\n", "resume:\n\n  in_progress_strategy: prompt\n",
		"ACODE_HOME=/elsewhere", "NO_COLOR=1", "ACODE_WORKSPACE_ALLOW=/x:/y", "ACODE_LOG_KEEP=")
	s.Flags = map[string]string{"resume.changed_files_action": "abort", "lock.wait": "60s"}
	l := load(t, s)
	want := []config.Value{
		{Key: "resume.in_progress_strategy", Value: "prompt", Origin: "/w/.agent/config.yml:3"},
		{Key: "resume.changed_files_action", Value: "abort", Origin: "flag --on-changes"},
		{Key: "store.home", Value: "/elsewhere", Origin: "environment ACODE_HOME"},
		{Key: "log.dir", Value: "/elsewhere/log", Origin: "default"},
		{Key: "log.level", Value: "warn", Origin: "/u/config.yml:2"},
		{Key: "log.keep", Value: "5", Origin: "default"},
		{Key: "lock.wait", Value: "1m0s", Origin: "flag --wait"},
		{Key: "workspace.allow", Value: "/x:/y", Origin: "environment ACODE_WORKSPACE_ALLOW"},
		{Key: "terminal.color", Value: "never", Origin: "environment NO_COLOR"},
	}
	for _, w := range want {
		if diff := cmp.Diff(w, value(l, w.Key)); diff != "" {
			t.Errorf("Load (-want +got):\n%s", diff)
		}
	}
	if again := load(t, s); !cmp.Equal(again.Config, l.Config) || !cmp.Equal(again.Values, l.Values) || !cmp.Equal(again.Warnings, l.Warnings) { // F3
		t.Errorf("Load of the same: got %+v, want %+v", again, l)
	}
	if got := load(t, sources("", "", "NO_COLOR=1", "ACODE_TERMINAL_COLOR=always")).Config.Terminal.Color; got != "always" {
		t.Errorf("Load: acode's own variable must win over NO_COLOR, got %q", got)
	}
}

// F2: people work with the texts of errors, so the test compares them exactly.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		name          string
		src           config.Sources
		place, detail string
	}{
		{"unknown_key", sources("resume:\n  in_progres_strategy: retry\n", ""), "/u/config.yml:2:3",
			"unknown key \"resume.in_progres_strategy\"; did you mean resume.in_progress_strategy?\n   2 |   in_progres_strategy: retry\n     |   ^"},
		{"unknown_section", sources("", "agents: 1\n"), "/w/.agent/config.yml:1:1", "unknown key \"agents\"\n   1 | agents: 1\n     | ^"},
		{"tab", sources("resume:\n\tx: 1\n", ""), "/u/config.yml:2:1",
			"a tab is used for indentation\n   2 | \tx: 1\n     | ^"},
		{"bad_enum", sources("", "resume:\n  changed_files_action: ignore\n"), "/w/.agent/config.yml:2:25",
			"resume.changed_files_action must be one of: prompt, continue, abort, not \"ignore\"\n   2 |   changed_files_action: ignore\n     |                         ^"},
		{"text_for_bool", sources("resume: {validate_environment: \"true\"}", ""), "/u/config.yml:1:32",
			"resume.validate_environment must be true or false, not text\n   1 | resume: {validate_environment: \"true\"}\n     |                                ^"},
		{"bool_for_enum", sources("log:\n  level: true", ""), "/u/config.yml:2:10", "log.level must be one of: debug, info, warn, error, not the truth value true\n   2 |   level: true\n     |          ^"},
		{"out_of_range", sources("resume:\n  validation_timeout_seconds: 0", ""), "/u/config.yml:2:31",
			"resume.validation_timeout_seconds must be a whole number from 1 to 3600, not \"0\"\n   2 |   validation_timeout_seconds: 0\n     |                               ^"},
		{"fraction", sources("log: {keep: 1.5}", ""), "/u/config.yml:1:13", "log.keep must be a whole number from 0 to 1000, not the number 1.5\n   1 | log: {keep: 1.5}\n     |             ^"},
		{"number_for_duration", sources("lock: {wait: 60}", ""), "/u/config.yml:1:14", "lock.wait must be a duration that is not negative, such as 60s, not the number 60\n   1 | lock: {wait: 60}\n     |              ^"},
		{"nothing", sources("log:\n  level:\n", ""), "/u/config.yml:2:3", "log.level has no value; it must be one of: debug, info, warn, error\n   2 |   level:\n     |   ^"},
		{"relative_path", sources("store: {home: data}", ""), "/u/config.yml:1:15", "store.home must be an absolute path, not \"data\"\n   1 | store: {home: data}\n     |               ^"},
		{"relative_in_list", sources("workspace:\n  allow: [/a, b]", ""), "/u/config.yml:2:15", "workspace.allow must be a list of absolute paths, not \"b\"\n   2 |   allow: [/a, b]\n     |               ^"},
		{"number_in_list", sources("workspace:\n  allow: [7]", ""), "/u/config.yml:2:11", "workspace.allow must be a list of absolute paths, not the number 7\n   2 |   allow: [7]\n     |           ^"},
		{"list_for_section", sources("- a", ""), "/u/config.yml:1:1", "a configuration is a mapping of keys to values, not a list\n   1 | - a\n     | ^"},
		{"text_for_section", sources("resume: retry", ""), "/u/config.yml:1:9", "\"resume\" is a mapping of keys to values, not text\n   1 | resume: retry\n     |         ^"},
		{"mapping_for_value", sources("sandbox: {a: b}", ""), "/u/config.yml:1:10", "sandbox must be one of: off, on, not a mapping\n   1 | sandbox: {a: b}\n     |          ^"},
		{"number_as_key", sources("7: a", ""), "/u/config.yml:1:1", "a key is text, not the number 7\n   1 | 7: a\n     | ^"},
		{"project_store", sources("", "resume: {}\nstore:\n  home: /tmp\n"), "/w/.agent/config.yml:2:1", "a project's file cannot set store, only resume keys\n   2 | store:\n     | ^"},
		{"project_models", sources("", "models: {}\n"), "/w/.agent/config.yml:1:1", "a project's file cannot set models, only resume keys\n   1 | models: {}\n     | ^"},
		{"model_without_script", sources("models:\n  a: {provider: script}\n", ""), "/u/config.yml:2:6", "\"a\" needs the key \"script\"\n   2 |   a: {provider: script}\n     |      ^"},
		{"model_relative", sources("models:\n  a: {provider: script, script: a.jsonl}\n", ""), "/u/config.yml:2:33", "\"script\" must be an absolute path, not \"a.jsonl\"\n   2 |   a: {provider: script, script: a.jsonl}\n     |                                 ^"},
		{"model_name", sources("models:\n  a b: {provider: script, script: /a}\n", ""), "/u/config.yml:2:3", "\"a b\" is not a name of a model: 1 to 64 letters, digits, dots, underscores and hyphens\n   2 |   a b: {provider: script, script: /a}\n     |   ^"},
		{"project_sandbox", sources("", "sandbox: off\n"), "/w/.agent/config.yml:1:1", "a project's file cannot set sandbox, only resume keys\n   1 | sandbox: off\n     | ^"},
		{"alias", sources("log: &a {level: warn}\nresume: *a", ""), "/u/config.yml:1:6", "anchors are not used in a configuration\n   1 | log: &a {level: warn}\n     |      ^"},
		{"alias_value", sources("log:\n  level: *a", ""), "/u/config.yml:2:10", "aliases are not used in a configuration\n   2 |   level: *a\n     |          ^"},
		{"alias_in_list", sources("workspace:\n  allow: [*a]", ""), "/u/config.yml:2:11", "aliases are not used in a configuration\n   2 |   allow: [*a]\n     |           ^"},
		{"merge_key", sources("log:\n  <<: {level: warn}", ""), "/u/config.yml:2:3", "merge keys are not used in a configuration\n   2 |   <<: {level: warn}\n     |   ^"},
		{"twice_with_a_dot", sources("log: {level: warn}\nlog.level: debug", ""), "/u/config.yml:2:1", "log.level is set twice\n   2 | log.level: debug\n     | ^"},
		{"twice_below_a_section", sources("", "resume.validate_environment: true\nresume:\n  validate_environment: false"), "/w/.agent/config.yml:3:3", "resume.validate_environment is set twice\n   3 |   validate_environment: false\n     |   ^"},
		{"tag", sources("log:\n  level: !!str warn", ""), "/u/config.yml:2:10", "tags are not used in a configuration\n   2 |   level: !!str warn\n     |          ^"},
		{"twice", sources("log:\n  keep: 1\n  keep: 2\n", ""), "/u/config.yml:3:3", "key \"keep\" occurs twice, first on line 2\n   3 |   keep: 2\n     |   ^"},
		{"two_documents", sources("log: {}\n---\nlog: {}\n", ""), "/u/config.yml:2:1", "a configuration is one YAML document; a second one begins here\n   2 | ---\n     | ^"},
		{"not_text", sources("a\x00b", ""), "/u/config.yml:1:2", "the character U+0000 cannot stand in a configuration as it is\n   1 | a\ufffdb\n     |  ^"},
		{"too_large", sources(strings.Repeat("# a\n", 1<<14+1), ""), "/u/config.yml", "the file is larger than 64 KiB; acode did not read it"},
		{"too_deep", sources("a: "+strings.Repeat("[\n", 300), ""), "/u/config.yml:33:1", "nested more than 32 deep\n  33 | [\n     | ^"},
		{"too_wide", sources(strings.Repeat("- ", 33), ""), "/u/config.yml:1:65", "nested more than 32 deep\n   1 | …" + strings.Repeat("- ", 31) + "\n     | " + strings.Repeat(" ", 61) + "^"},
		{"steers_terminal", sources("", "\"a\u009b2J\": 1"), "/w/.agent/config.yml:1:1", "unknown key \"a\\u009b2J\"\n   1 | \"a\ufffd2J\": 1\n     | ^"},
		{"control", sources("", "\"a\x1b[2J\": 1"), "/w/.agent/config.yml:1:3", "the character U+001B cannot stand in a configuration as it is\n   1 | \"a\ufffd[2J\": 1\n     |   ^"},
		{"separator", sources("log: a \u2028 b", ""), "/u/config.yml:1:8", "the character U+2028 cannot stand in a configuration as it is\n   1 | log: a \ufffd b\n     |        ^"},
		{"never_closed", sources("log: {level: warn\n", ""), "/u/config.yml:1:6", "this \"{\" is never closed\n   1 | log: {level: warn\n     |      ^"},
		{"colon", sources("log: a: b\n", ""), "/u/config.yml:1:7", "text without quotes contains \": \"\n   1 | log: a: b\n     |       ^"},
		{"variable", sources("", "", "ACODE_LOG_LEVEL=loud"), "environment ACODE_LOG_LEVEL", "ACODE_LOG_LEVEL must be one of: debug, info, warn, error, not \"loud\""},
		{"variable_relative", sources("", "", "ACODE_HOME=here"), "environment ACODE_HOME", "ACODE_HOME must be an absolute path, not \"here\""},
		{"variable_bool", sources("", "", "ACODE_KEY_KEYRING=maybe"), "environment ACODE_KEY_KEYRING", "ACODE_KEY_KEYRING must be true or false, not \"maybe\""},
		{"variable_size", sources("", "", "ACODE_LOG_MAX_BYTES=9999999999GiB"), "environment ACODE_LOG_MAX_BYTES", "ACODE_LOG_MAX_BYTES must be a number of bytes from 65536 to 1099511627776, such as 10MiB, not \"9999999999GiB\""},
		{"variable_sandbox", sources("", "", "ACODE_SANDBOX=yes"), "environment ACODE_SANDBOX", "ACODE_SANDBOX must be one of: off, on, not \"yes\""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := config.Load(tt.src)
			var e *session.Error
			if l != nil || !errors.As(err, &e) || e.Code != session.ErrConfig || e.Next.IsZero() {
				t.Fatalf("Load: got %v, %#v, want an error with ErrConfig and a next step", l, err)
			}
			if diff := cmp.Diff(tt.place+"\n"+tt.detail, e.Place+"\n"+e.Message); diff != "" {
				t.Errorf("Load (-want +got):\n%s", diff)
			}
		})
	}
}

// A tab in a text belongs to the text.
func TestTabs(t *testing.T) {
	l := load(t, sources("store:\n  home: /a\tb\nworkspace:\n  allow: [\"/a\t\tb\",\t'/c\td', /e\tf]\n", ""))
	if diff := cmp.Diff([]string{"/a\t\tb", "/c\td", "/e\tf"}, l.Config.Workspace.Allow); diff != "" || l.Config.Store.Home != "/a\tb" {
		t.Errorf("Load: got the home %q, the directories (-want +got):\n%s", l.Config.Store.Home, diff)
	}
}

// A file within the limits must be cheap, or a workspace could keep acode busy. The time
// limit of the test enforces this.
func TestHostileFilesAreCheap(t *testing.T) {
	var many strings.Builder
	for i := 0; many.Len() < 64<<10-20; i++ {
		fmt.Fprintf(&many, "k%d: 1\n", i)
	}
	var deep strings.Builder
	for i := 0; deep.Len() < 60<<10; i++ {
		deep.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for _, text := range []string{many.String(), deep.String(), strings.Repeat("-\n", 32<<10), strings.Repeat("- ", 2<<10), strings.Repeat("[", 256)} {
		if _, err := config.Load(sources("", text)); !errors.Is(err, session.ErrConfig) || strings.Contains(err.Error(), "larger") {
			t.Errorf("Load of %.20q…: got %v, want an error from the parser", text, err)
		}
	}
}

func TestLongLinesAreCut(t *testing.T) {
	_, err := config.Load(sources("log: {dir: /"+strings.Repeat("a", 200)+", levl: x, "+strings.Repeat(" ", 200)+"}", ""))
	want := "   1 | …" + strings.Repeat("a", 58) + ", levl: x, " + strings.Repeat(" ", 51) + "…\n     | " + strings.Repeat(" ", 61) + "^"
	var e *session.Error
	if !errors.As(err, &e) || !strings.HasSuffix(e.Message, want) {
		t.Errorf("Load: got %v, want it to end in\n%s", err, want)
	}
}

func TestHintNamesWhatIsKnown(t *testing.T) {
	var e *session.Error
	_, err := config.Load(sources("", "resume:\n  strategy: x"))
	if !errors.As(err, &e) || e.Next.String() != "known here: in_progress_strategy, validate_environment, changed_files_action, validation_timeout_seconds" {
		t.Errorf("Load: got %#v", err)
	}
	_, err = config.Load(sources("", "rsume: {}"))
	if !errors.As(err, &e) || !strings.Contains(e.Message, "did you mean resume?") || e.Next.String() != "known here: resume" {
		t.Errorf("Load: got %#v, want an error that lists only the keys of a project", err)
	}
}

func TestFlags(t *testing.T) {
	s := sources("", "")
	s.Flags = map[string]string{"resume.in_progress_strategy": "undo"}
	if _, err := config.Load(s); !errors.Is(err, session.ErrUsage) || !strings.Contains(err.Error(), "--in-progress must be one of: rollback, retry, prompt, not \"undo\"") {
		t.Errorf("Load with a wrong flag: got %v", err)
	}
	s.Flags = map[string]string{"log.keep": "-1"}
	if _, err := config.Load(s); !errors.Is(err, session.ErrUsage) || !strings.Contains(err.Error(), "--log.keep") {
		t.Errorf("Load with a wrong flag: got %v", err)
	}
	s.Flags = map[string]string{"no.such": "x"}
	if _, err := config.Load(s); !errors.Is(err, session.ErrInternal) {
		t.Errorf("Load with a flag for no key: got %v", err)
	}
}

// F1: a project can set only the resume keys, and a warning names each protection that it
// removes.
func TestProjectIsNotTrusted(t *testing.T) {
	for _, v := range load(t, sources("", "")).Values {
		section, name, _ := strings.Cut(v.Key, ".")
		text := fmt.Sprintf("%s: {%s: x}", section, name)
		if name == "" {
			text = section + ": off"
		}
		_, err := config.Load(sources("", text))
		if refused := err != nil && strings.Contains(err.Error(), "a project's file cannot set"); refused == (section == "resume") {
			t.Errorf("Load of a project with %q: got %v", text, err)
		}
	}
	loose := "resume:\n  validate_environment: false\n  changed_files_action: continue\n"
	want := []string{
		"/w/.agent/config.yml:2: the project's file sets validate_environment: false, so acode does not look for changes made while the session was stopped",
		"/w/.agent/config.yml:3: the project's file sets changed_files_action: continue, so the session continues with changed files without a question",
	}
	if diff := cmp.Diff(want, load(t, sources(loose, loose)).Warnings); diff != "" {
		t.Errorf("Warnings (-want +got):\n%s", diff)
	}
	overruled := load(t, sources("", loose, "ACODE_RESUME_VALIDATE_ENVIRONMENT=true", "ACODE_RESUME_CHANGED_FILES_ACTION=abort"))
	if len(overruled.Warnings) > 0 || !overruled.Config.Resume.ValidateEnvironment {
		t.Errorf("Load: got %q for values that are not in effect", overruled.Warnings)
	}
}

func TestUnknownVariables(t *testing.T) {
	l := load(t, sources("", "", "ACODE_LOG_LEVL=debug", "ACODE_ZZZ=1", "ACODE_CONFIG=/c", "ACODE_CHECKPOINT_SECRET=s", "ACODE_IDEMPOTENCY_KEY=k", "ACODE_TEST_POSTGRES=p", "OTHER=1"))
	want := []string{"environment ACODE_LOG_LEVL: no such setting; did you mean ACODE_LOG_LEVEL?", "environment ACODE_ZZZ: no such setting"}
	if diff := cmp.Diff(want, l.Warnings); diff != "" {
		t.Errorf("Warnings (-want +got):\n%s", diff)
	}
}

func TestKeys(t *testing.T) {
	base := load(t, sources("", ""))
	same := sources("log:\n  level: debug\nresume:\n  in_progress_strategy: rollback\n", "", "ACODE_HOME=/x")
	same.Flags = map[string]string{"resume.changed_files_action": "continue"}
	if got := load(t, same); !cmp.Equal(got.Keys(), base.Keys()) || len(got.Keys()) == 0 {
		t.Errorf("Keys: got %v, want %v: neither the log nor a flag decides execution", got.Keys(), base.Keys())
	}
	other := load(t, sources("", "resume: {in_progress_strategy: retry}"))
	if cmp.Equal(other.Keys(), base.Keys()) {
		t.Error("Keys: another strategy must show")
	}
	want := map[string]string{
		"resume.in_progress_strategy": "retry", "resume.validate_environment": "true", "resume.changed_files_action": "prompt",
		"resume.validation_timeout_seconds": "10", "command.max_output_bytes": "16777216", "sandbox": "off",
	}
	if diff := cmp.Diff(want, other.Keys()); diff != "" {
		t.Errorf("Keys (-want +got):\n%s", diff)
	}
	other.Keys()["sandbox"] = "on"
	if other.Keys()["sandbox"] != "off" {
		t.Error("Keys: the caller's change reached the configuration")
	}
}

func TestPaths(t *testing.T) {
	env := func(kv map[string]string) func(string) string { return func(name string) string { return kv[name] } }
	xdg := map[string]string{"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "HOME": "/h"}
	for _, tt := range []struct{ name, got, want string }{
		{"user_file", config.UserFile(env(xdg)), "/c/acode/config.yml"},
		{"user_file_named", config.UserFile(env(map[string]string{"ACODE_CONFIG": "mine.yml"})), "mine.yml"},
		{"home", config.Home(env(xdg)), "/s/acode"},
		{"home_named", config.Home(env(map[string]string{"ACODE_HOME": "/a/../b"})), "/b"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, tt.got, tt.want)
		}
	}
	for _, kv := range []map[string]string{{"HOME": "/h", "XDG_STATE_HOME": "relative"}, {}} {
		if got := config.Home(env(kv)); !filepath.IsAbs(got) || filepath.Base(got) != "acode" {
			t.Errorf("Home(%v): got %s", kv, got)
		}
	}
}

// A service may have no HOME. Even then the store does not lie directly below /.
func TestHomeOfTheAccount(t *testing.T) {
	u, err := user.Current()
	if err != nil || runtime.GOOS == "darwin" {
		return // The account is unknown, or the system has other directories.
	}
	t.Setenv("HOME", "")
	none := func(string) string { return "" }
	if got, want := config.Home(none), filepath.Join(u.HomeDir, ".local", "state", "acode"); got != want {
		t.Errorf("Home: got %s, want %s", got, want)
	}
	if got, want := config.UserFile(none), filepath.Join(u.HomeDir, ".config", "acode", "config.yml"); got != want {
		t.Errorf("UserFile: got %s, want %s", got, want)
	}
}

func TestReadProject(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ".agent", "config.yml")
	expect := func(name, want string, refused bool) {
		t.Helper()
		data, path, err := config.ReadProject(dir)
		if string(data) != want || path != file || errors.Is(err, session.ErrConfig) != refused || err != nil != refused {
			t.Errorf("ReadProject with %s: got %d bytes, %s, %v", name, len(data), path, err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect("nothing", "", false)
	must(os.WriteFile(filepath.Join(dir, ".agent"), nil, 0o600))
	expect("a file in place of the folder", "", false)
	must(os.Remove(filepath.Join(dir, ".agent")))
	must(os.Mkdir(filepath.Join(dir, ".agent"), 0o700))
	expect("an empty folder", "", false)
	must(os.WriteFile(file, []byte("resume: {}\n"), 0o600))
	expect("a file", "resume: {}\n", false)
	must(os.Rename(file, file+".real"))
	must(os.Symlink("config.yml.real", file))
	expect("a link inside", "resume: {}\n", false)
	outside := filepath.Join(t.TempDir(), "outside.yml")
	must(os.WriteFile(outside, []byte("resume: {}\n"), 0o600))
	must(os.Remove(file))
	must(os.Symlink(outside, file))
	expect("a link outside", "", true)
	must(os.Remove(file))
	must(syscall.Mkfifo(file, 0o600))
	expect("a named pipe", "", true)
	must(os.Remove(file))
	must(os.Mkdir(file, 0o700))
	expect("a folder", "", true)
	must(os.Remove(file))
	must(os.WriteFile(file, make([]byte, 64<<10+1), 0o600))
	expect("a huge file", "", true)

	if data, _, err := config.ReadProject(filepath.Join(dir, "absent")); data != nil || err != nil {
		t.Errorf("ReadProject of an absent workspace: got %q, %v", data, err)
	}
	var e *session.Error
	if _, _, err := config.ReadProject(file); !errors.As(err, &e) || e.Code != session.ErrConfig || e.Place != file {
		t.Errorf("a file for a workspace: got %v, want %s of it", err, session.ErrConfig)
	}
}

func TestReadUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yml")
	if data, err := config.ReadUser(path, false); data != nil || err != nil {
		t.Errorf("ReadUser of no file: got %q, %v", data, err)
	}
	if _, err := config.ReadUser(path, true); !errors.Is(err, session.ErrConfig) {
		t.Errorf("ReadUser of a file that was named and is absent: got %v", err)
	}
	if data, err := config.ReadUser("/dev/null/.config/acode/config.yml", false); data != nil || err != nil { // Some services have this HOME.
		t.Errorf("ReadUser below a device: got %q, %v", data, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := config.ReadUser(path, true); data == nil || len(data) > 0 || err != nil {
		t.Errorf("ReadUser of an empty file: got %#v, %v", data, err)
	}
	if _, err := config.ReadUser(filepath.Dir(path), true); !errors.Is(err, session.ErrConfig) {
		t.Errorf("ReadUser of a folder: got %v", err)
	}
}

var updateSchema = flag.Bool("update-schema", false, "write schema.json")

// The embedded schema agrees with the table of keys.
func TestSchemaIsMadeFromKeys(t *testing.T) {
	want := config.MakeSchema()
	if *updateSchema {
		if err := os.WriteFile("schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("schema.json"); err != nil || !bytes.Equal(got, want) || !*updateSchema && !bytes.Equal(config.Schema(), want) {
		t.Errorf("config/schema.json does not agree with the keys (%v); run: go test ./config -update-schema", err)
	}
}

func TestSchema(t *testing.T) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		t.Fatalf("Schema: %v", err)
	}
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatalf("Schema: %v", err)
	}
	for text, valid := range map[string]bool{
		`{}`: true, `{"resume":{"in_progress_strategy":"retry","validate_environment":false,"validation_timeout_seconds":5},"sandbox":"off"}`: true,
		`{"store":{"home":"/x"},"lock":{"wait":"1m30s"},"log":{"max_bytes":"10MiB"},"workspace":{"allow":["/a"]}}`: true,
		`{"resume":{"strategy":"retry"}}`: false, `{"resume":{"validation_timeout_seconds":0}}`: false, `{"sandbox":"on"}`: true, `{"sandbox":"yes"}`: false, `{"log":{"max_bytes":1}}`: false,
		`{"lock":{"wait":60}}`: false, `{"other":1}`: false, `{"workspace":{"allow":["a"]}}`: false, `{"log":{"max_bytes":"many"}}`: false,
	} {
		var doc any
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(doc); (err == nil) != valid {
			t.Errorf("Schema on %s: got %v, want valid %v", text, err, valid)
		}
	}
	for _, v := range load(t, sources("", "")).Values {
		at := &schema
		for part := range strings.SplitSeq(v.Key, ".") {
			if at = at.Properties[part]; at == nil {
				t.Fatalf("Schema: %s is missing", v.Key)
			}
		}
	}
}

// The schema rejects the values that Load rejects, and no others. Of a number of bytes as
// text it checks only the form.
func TestSchemaAllowsWhatIsTaken(t *testing.T) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	rules, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, key := range load(t, sources("", "")).Values {
		for _, value := range []string{`""`, `"x"`, `"/a"`, `"~"`, `"~/a"`, `"~a"`, `"0"`, `"5s"`, `"+5s"`, `"-5s"`, `"1.5h"`, `"1μs"`, `"1µs"`, `"5"`,
			`"postgres://h/d"`, `"mysql://h/d"`, `"127.0.0.1:9"`, `"unix:/p"`, `"unix:p"`, `"info"`, `"off"`, `true`, `"true"`, `5`, `0`, `-1`, `["/a"]`, `["a"]`, `[]`, `{}`} {
			if strings.HasSuffix(key.Key, "_bytes") && (value == `"0"` || value == `"5"`) {
				continue
			}
			text := "{" + strconv.Quote(key.Key) + ": " + value + "}"
			if section, name, ok := strings.Cut(key.Key, "."); ok {
				text = fmt.Sprintf("{%q: {%q: %s}}", section, name, value)
			}
			var doc any
			if err := json.Unmarshal([]byte(text), &doc); err != nil {
				t.Fatal(err)
			}
			_, err := config.Load(sources(text, ""))
			if valid := rules.Validate(doc); (valid == nil) != (err == nil) {
				t.Errorf("%s: the schema says %v, Load %v", text, valid, err)
			}
			if err == nil {
				taken++
			}
		}
	}
	if taken < 30 {
		t.Errorf("%d values were taken: this test proves nothing", taken)
	}
}

// The highest layer with a value decides.
func TestPrecedence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.SampledFrom([]string{"", "rollback", "retry", "prompt"}), 4, 4).Draw(t, "values")
		yml := func(v string) string {
			if v == "" {
				return ""
			}
			return "resume:\n  in_progress_strategy: " + v + "\n"
		}
		s := sources(yml(values[0]), yml(values[1]), "ACODE_RESUME_IN_PROGRESS_STRATEGY="+values[2])
		if values[3] != "" {
			s.Flags = map[string]string{"resume.in_progress_strategy": values[3]}
		}
		want, origin := "rollback", "default"
		for i, o := range []string{"/u/config.yml:2", "/w/.agent/config.yml:2", "environment ACODE_RESUME_IN_PROGRESS_STRATEGY", "flag --in-progress"} {
			if values[i] != "" {
				want, origin = values[i], o
			}
		}
		l, err := config.Load(s)
		if err != nil {
			t.Fatalf("Load: %v", err)
		}
		got := l.Values[0]
		if got.Value != want || got.Origin != origin || l.Config.Resume.InProgressStrategy != want {
			t.Fatalf("Load of %q: got %+v, want %s from %s", values, got, want, origin)
		}
	})
}

func FuzzLoad(f *testing.F) {
	for _, text := range []string{"resume:\n  in_progress_strategy: retry\n", "a: &a [*a]", "{", "? a\n: b", "log: |\n  x\n", "--- !t\n- a", "%YAML 1.2\n---\n", "\"\\x", "resume: {<<: *x}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := config.Load(config.Sources{UserFile: "u", ProjectFile: "p", UserData: data, ProjectData: data, Environ: []string{"HOME=/h"}})
		if err == nil && len(l.Keys()) == 0 || err != nil && !errors.Is(err, session.ErrConfig) {
			t.Fatalf("Load of %q: got %v, %v", data, l, err)
		}
		if err == nil && value(l, "store.home").Origin != "default" {
			t.Fatalf("Load of %q: a project's file set the store", data)
		}
	})
}
