package script

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptKey is the key of the script's own state.
type scriptKey struct{}

// script is the state that one script keeps between its lines.
type script struct {
	// names holds the replacements of ids and places for norm.
	names   *strings.Replacer
	pairs   []string
	started map[string]*started
}

func newScript(work string) *script {
	s := &script{started: map[string]*started{}}
	s.call(work, "$WORK")
	return s
}

func own(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

func (s *script) call(what, name string) {
	s.pairs = append(s.pairs, what, name)
	s.names = strings.NewReplacer(s.pairs...)
}

// patience limits every wait; a script that reaches it has failed.
const patience = 60 * time.Second

// Verb is a command of scripts.
type Verb = func(ts *testscript.TestScript, neg bool, args []string)

// Verbs returns the commands that scripts have in addition to those of testscript.
func Verbs() map[string]Verb {
	return map[string]Verb{
		"exits":  Usage(2, "exits STATUS COMMAND...", exits),
		"start":  Usage(2, "start NAME COMMAND...", start),
		"signal": Usage(2, "signal INT|TERM|HUP|KILL|STOP|CONT NAME", signalStarted),
		"finish": Usage(2, "finish STATUS NAME", finish),
		"shows":  Usage(2, "shows NAME TEXT", shows),
		"await":  Usage(1, "await FILE [TEXT]", await),
		"let":    Usage(1, "let NAME...", let),
		"lines":  Usage(2, "lines COUNT FILE", countLines),
		"id":     Usage(1, "id NAME [NTH]", nameID),
		"norm":   Usage(1, "norm OUTPUT [FILE]", norm),
		"pty":    Usage(3, "pty STATUS DIALOGUE COMMAND...", onTerminal),
		"jsonl":  Usage(1, "jsonl STATUS", checkLines),
		"tree":   Usage(2, "tree DIR OUTPUT", tree),
	}
}

// Usage makes a Verb that takes at least the given number of arguments and no negation.
func Usage(least int, text string, run func(*testscript.TestScript, []string)) Verb {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < least {
			ts.Fatalf("usage: %s", text)
		}
		run(ts, args)
	}
}

// exits runs a command that must end with a status.
func exits(ts *testscript.TestScript, args []string) {
	wantStatus(ts, args[0], args[1:], ts.Exec(args[1], args[2:]...))
}

// wantStatus checks how a command ended. status is a number, -9 for a killed command, or
// two statuses as in 0|1.
func wantStatus(ts *testscript.TestScript, status string, args []string, err error) {
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.Exited():
		got = exit.ExitCode()
	case errors.As(err, &exit):
		got = -int(exit.Sys().(syscall.WaitStatus).Signal())
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if !slices.Contains(strings.Split(status, "|"), strconv.Itoa(got)) {
		ts.Fatalf("%v: exit status %d, want %s", args, got, status)
	}
}

// prepare makes a command in the script's directory and environment.
func prepare(ts *testscript.TestScript, args []string) *exec.Cmd {
	ts.Check(ts.Exec("sh", "-c", `command -v "$1"; env -0 | tr "\\0" "\\1"`, "sh", args[0]))
	path, environ, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	cmd := exec.Command(path, args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = strings.Split(strings.TrimSuffix(environ, "\x01"), "\x01")
	return cmd
}

// started is a command that runs beside the script, in its own process group.
type started struct {
	cmd      *exec.Cmd
	out, err screen
	end      error
	done     chan struct{}
}

// start runs a command beside the script.
func start(ts *testscript.TestScript, args []string) {
	s := &started{cmd: prepare(ts, args[1:]), done: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.err
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ts.Check(s.cmd.Start())
	go func() {
		s.end = s.cmd.Wait()
		close(s.done)
	}()
	ts.Defer(func() {
		// The process may have ended.
		_ = s.cmd.Process.Kill()
		<-s.done
	})
	own(ts).started[args[0]] = s
	ts.Setenv(args[0]+"_PID", strconv.Itoa(s.cmd.Process.Pid))
}

func beside(ts *testscript.TestScript, name string) *started {
	s := own(ts).started[name]
	if s == nil {
		ts.Fatalf("no command was started as %s", name)
	}
	return s
}

// signalStarted sends a signal to a started command; a minus before the name means its
// group.
func signalStarted(ts *testscript.TestScript, args []string) {
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP,
		"KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}
	name, group := strings.CutPrefix(args[1], "-")
	pid := beside(ts, name).cmd.Process.Pid
	if group {
		pid = -pid
	}
	ts.Check(syscall.Kill(pid, signals[args[0]]))
}

// finish waits for a started command, checks its status and makes its output available as
// stdout and stderr.
func finish(ts *testscript.TestScript, args []string) {
	s := beside(ts, args[1])
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-s.done:
	case <-ctx.Done():
		ts.Fatalf("%v does not end", s.cmd.Args)
	}
	// Writing to a buffer cannot fail.
	_, _ = ts.Stdout().Write([]byte(s.out.String()))
	// The same applies here.
	_, _ = ts.Stderr().Write([]byte(s.err.String()))
	wantStatus(ts, args[0], s.cmd.Args, s.end)
}

// shows waits until a started command has written a text to either output.
func shows(ts *testscript.TestScript, args []string) {
	s := beside(ts, args[0])
	Until(ts, "wait for "+args[1], func() bool {
		return strings.Contains(s.out.String(), args[1]) || strings.Contains(s.err.String(), args[1])
	})
}

// await waits until a file exists, or until it holds a text.
func await(ts *testscript.TestScript, args []string) {
	path, text := ts.MkAbs(args[0]), strings.Join(args[1:], " ")
	Until(ts, "wait for "+path, func() bool {
		data, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(data), text)
	})
}

// Until waits until ok returns true, and fails the script after patience.
func Until(ts *testscript.TestScript, what string, ok func() bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			for name, s := range own(ts).started {
				if s.ended() {
					ts.Logf("%s has ended (%v):\n%s%s", name, s.end, &s.out, &s.err)
				}
			}
			ts.Fatalf("%s: timed out after %v", what, patience)
		case <-tick.C:
		}
	}
}

// let lets waiting hold commands continue.
func let(ts *testscript.TestScript, args []string) {
	for _, name := range args {
		ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), name), nil, 0o644))
	}
}

// countLines checks the number of lines of a file.
func countLines(ts *testscript.TestScript, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := strings.Count(ts.ReadFile(args[1]), "\n"); got != want {
		ts.Fatalf("%s has %d lines, want %d:\n%s", args[1], got, want, ts.ReadFile(args[1]))
	}
}

// nameID finds the newest session, or the NTH newest, and names it NAME. $NAME is its
// short id and $NAME_ID the UUID. norm writes NAME instead of both.
func nameID(ts *testscript.TestScript, args []string) {
	nth := 1
	if len(args) > 1 {
		var err error
		nth, err = strconv.Atoi(args[1])
		ts.Check(err)
	}
	ts.Check(ts.Exec("acode", "session", "list", "--all", "--json"))
	type row struct {
		ID      string `json:"id"`
		ShortID string `json:"short_id"`
	}
	var list struct {
		Sessions []row `json:"sessions"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &list))
	if len(list.Sessions) < nth {
		ts.Fatalf("there are %d sessions, not %d", len(list.Sessions), nth)
	}
	// The newest session comes first, because an id begins with its time.
	slices.SortFunc(list.Sessions, func(a, b row) int { return strings.Compare(b.ID, a.ID) })
	s := list.Sessions[nth-1]
	ts.Setenv(args[0], s.ShortID)
	ts.Setenv(args[0]+"_ID", s.ID)
	own(ts).call(s.ID, args[0]+"-uuid")
	own(ts).call(s.ShortID, args[0])
}

// norm writes the output of the last command, or FILE. It replaces everything that
// differs from run to run: ids and places by names, times and durations by T, N or "ago".
func norm(ts *testscript.TestScript, args []string) {
	file := "stdout"
	if len(args) > 1 {
		file = args[1]
	}
	s := own(ts)
	text := s.names.Replace(strings.ReplaceAll(ts.ReadFile(file), "\r\n", "\n"))
	for _, r := range []struct{ pattern, with string }{
		{`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z`, "TIME"},
		{`\bpid \d+`, "pid N"},
		{`(Paused: )(now|\d+ \w+( ago)?)`, "${1}AGO"},
		{`\b(modified|created) (now|\d+ \w+ ago)`, "$1 AGO"},
		{`(skipped, |\()<?(\d+m\d\ds|\d+(\.\d+)?(µs|ms|s))\)`, "${1}TOOK)"},
		{`(?m)^(\w+ +[A-Z_]+ +)(now|\d+\w ago) +`, "${1}AGO "},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}

// checkLines checks the JSON Lines of the last command. Each line is valid and of version
// 1. The first names the session, if there is one. Only the last is the result, and it
// matches the exit status.
func checkLines(ts *testscript.TestScript, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	type line struct {
		V         int    `json:"v"`
		Type      string `json:"type"`
		SessionID string `json:"session_id"`
		Exit      *int   `json:"exit"`
	}
	var all []line
	for _, text := range strings.Split(strings.TrimSuffix(ts.ReadFile("stdout"), "\n"), "\n") {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.V != 1 {
			ts.Fatalf("no JSON line of version 1: %q: %v", text, err)
		}
		all = append(all, l)
	}
	for i, l := range all {
		if (l.Type == "result") != (i == len(all)-1) {
			ts.Fatalf("line %d of %d is a %q", i+1, len(all), l.Type)
		}
	}
	if len(all) > 1 && (all[0].Type != "session" || all[0].SessionID == "") {
		ts.Fatalf("the first line does not name the session: %+v", all[0])
	}
	if last := all[len(all)-1]; last.Exit == nil || *last.Exit != want {
		ts.Fatalf("the result does not say exit %d: %+v", want, last)
	}
}

// serves reports whether there is a socket below dir. A supervisor ends, and removes its
// socket, a moment after the acode that started it.
func serves(dir string) (found bool) {
	// tree reports unreadable files.
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		found = found || err == nil && d.Type() == fs.ModeSocket
		return nil
	})
	return found
}

// tree lists every file below DIR with mode, time of change and hash, once no command
// runs there. Every reader changes the time of SQLite's shared memory, so only its bytes
// count.
func tree(ts *testscript.TestScript, args []string) {
	dir := ts.MkAbs(args[0])
	Until(ts, "wait for supervisors in "+dir, func() bool { return !serves(dir) })
	var out strings.Builder
	ts.Check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			_, _ = fmt.Fprintf(&out, "%s\n", path)
			return err
		}
		// Opening the pipe would wait for a writer.
		if d.Type() == fs.ModeNamedPipe {
			_, _ = fmt.Fprintf(&out, "%s %s\n", path, info.Mode())
			return nil
		}
		data, err := os.ReadFile(path)
		changed := info.ModTime().UnixNano()
		if strings.HasSuffix(path, "-shm") {
			changed = 0
		}
		_, _ = fmt.Fprintf(&out, "%s %s %d %x\n", path, info.Mode(), changed, sha256.Sum256(data))
		return err
	}))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(out.String()), 0o644))
}
