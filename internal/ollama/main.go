package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// window is the size of the context that is configured.
const window = 16384

// replies are the script: two turns with a call, and an answer.
func replies() [][]string {
	return [][]string{
		{"I begin. ", `[TOOL]{"name": "write_file", "parameters": {"path": "NOTES.md", "content": "from the engine"}}`},
		{`[TOOL]{"name": "run_command", "parameters": {"command": "echo once >> ledger; sleep 3; echo built"}}`},
		{`[TOOL]{"name": "read_file", "parameters": {"path": "NOTES.md"}}`},
		{"It is", " done."},
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: ollama PROGRAMS OLLAMA")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "ollama:", err)
		os.Exit(1)
	}
}

// site is the place of a session.
type site struct {
	ws, programs string
	environ      []string
	spy          *spy
}

func run(ctx context.Context, programs, ollama string) error {
	programs, err := filepath.Abs(programs)
	ollama, err2 := filepath.Abs(ollama)
	dir, err3 := os.MkdirTemp("", "acode-ollama-")
	if err = errors.Join(err, err2, err3); err != nil {
		return err
	}
	model := script(replies())
	e, err := serve(ctx, ollama, dir, model)
	if e != nil {
		defer e.stop()
	}
	if err != nil {
		return fmt.Errorf("%w; its log is in %s", err, dir)
	}
	s, err := newSite(dir, programs, watch(e.url, len(replies())))
	if err != nil {
		return err
	}
	defer s.spy.Close()
	if err := s.execute(); err != nil {
		return fmt.Errorf("%w; all is kept in %s", err, dir)
	}
	if err := s.judge(e, model); err != nil {
		return fmt.Errorf("%w; all is kept in %s", err, dir)
	}
	return os.RemoveAll(dir)
}

func newSite(dir, programs string, watched *spy) (*site, error) {
	s := &site{ws: filepath.Join(dir, "ws"), programs: programs, spy: watched}
	home := filepath.Join(dir, "home")
	s.environ = []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + filepath.Join(dir, "tmp"), "ACODE_HOME=" + filepath.Join(dir, "state"), "ACODE_KEY_KEYRING=false", "NO_COLOR=1"}
	settings := fmt.Sprintf("model: m\nmodels:\n  m: {provider: ollama, model: script, base_url: %q, context_tokens: %d}\n", watched.URL, window)
	plan := "version: 1\ntask: Fix\ntasks:\n  - id: fix\n    steps:\n      - {id: code, prompt: Do it, tools: [files, commands]}\n"
	return s, errors.Join(
		os.MkdirAll(s.ws, 0o700), os.MkdirAll(filepath.Join(dir, "tmp"), 0o700), os.MkdirAll(filepath.Join(home, ".config", "acode"), 0o700),
		os.WriteFile(filepath.Join(home, ".config", "acode", "config.yml"), []byte(settings), 0o600),
		os.WriteFile(filepath.Join(s.ws, "plan.yml"), []byte(plan), 0o600), os.WriteFile(filepath.Join(s.ws, "ledger"), nil, 0o600))
}

// execute runs the plan. It kills acode in the command and in the last reply.
func (s *site) execute() error {
	running := func() error {
		return until("the command of the model runs", func() bool {
			ledger, err := os.ReadFile(filepath.Join(s.ws, "ledger"))
			return err == nil && len(ledger) > 0
		})
	}
	if err := s.killed(running, "run", "plan.yml", "--allow", "commands"); err != nil {
		return err
	}
	replying := func() error {
		<-s.spy.held
		return until("a part of the reply arrived", func() bool {
			out, err := exec.Command("grep", "-rqs", "It is", filepath.Join(filepath.Dir(s.ws), "state", "replies")).CombinedOutput()
			return err == nil && len(out) == 0
		})
	}
	if err := s.killed(replying, "resume", "--allow", "commands"); err != nil {
		return err
	}
	out, err := s.acode("resume", "--allow", "commands").CombinedOutput()
	fmt.Printf("%s", out)
	return err
}

func (s *site) acode(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.programs, "acode"), args...)
	cmd.Dir, cmd.Env = s.ws, s.environ
	return cmd
}

// killed runs acode and kills its process at the moment that at waits for.
func (s *site) killed(at func() error, args ...string) error {
	cmd := s.acode(args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return err
	}
	err := at()
	_ = cmd.Process.Kill() // it may have ended, which the next line notices
	ended := cmd.Wait()
	fmt.Printf("%s[killed]\n", out.String())
	var exit *exec.ExitError
	if err == nil && (!errors.As(ended, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
		err = fmt.Errorf("acode ended before the kill: %v", ended)
	}
	return err
}

// judge checks the end.
func (s *site) judge(e *engine, model *table) error {
	ledger, err := os.ReadFile(filepath.Join(s.ws, "ledger"))
	notes, err2 := os.ReadFile(filepath.Join(s.ws, "NOTES.md"))
	if err = errors.Join(err, err2); err != nil || string(ledger) != "once\n" || string(notes) != "from the engine" {
		return fmt.Errorf("the effects are wrong: %w: ledger %q, notes %q", err, ledger, notes)
	}
	if out, err := s.acode("verify").CombinedOutput(); err != nil {
		return fmt.Errorf("the store is not sound: %w: %s", err, out)
	}
	said, err := s.counted()
	if err != nil {
		return err
	}
	bodies := s.spy.asked()
	if len(bodies) != len(replies())+1 || len(said) != len(replies()) {
		return fmt.Errorf("got %d requests and %d replies, want one request more than %d, because a reply was cut off", len(bodies), len(said), len(replies()))
	}
	bodies = slices.Delete(slices.Clone(bodies), len(replies())-1, len(replies()))
	for i, body := range bodies {
		if err := s.request(e, model, body, said[i]); err != nil {
			return fmt.Errorf("request %d: %w", i+1, err)
		}
	}
	last := string(bodies[len(bodies)-1])
	for _, want := range []string{"Exit status 0", "built", "from the engine", `"content":"It is"`} {
		if !strings.Contains(last, want) {
			return fmt.Errorf("the last request lacks %q: %s", want, last)
		}
	}
	fmt.Printf("%d turns, %d requests, 2 kills; the server read %v tokens, as the journal says; each effect once\n", len(said), len(bodies)+1, said)
	return nil
}

// request checks a request: its window, and that all of it was read.
func (s *site) request(e *engine, model *table, body []byte, said int) error {
	var sent struct {
		Options  map[string]int
		Messages []struct{ Content string }
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return err
	}
	if sent.Options["num_ctx"] != window {
		return fmt.Errorf("num_ctx is %d, want %d", sent.Options["num_ctx"], window)
	}
	text, err := e.rendered(body)
	if err != nil {
		return err
	}
	for _, m := range sent.Messages {
		if !strings.Contains(text, m.Content) {
			return fmt.Errorf("the server left out %q", m.Content)
		}
	}
	if n := model.count(text); n != said {
		return fmt.Errorf("the journal says that %d tokens were read, and the request has %d", said, n)
	}
	return nil
}

// counted returns the tokens that the journal has for each whole reply.
func (s *site) counted() (tokens []int, err error) {
	out, err := s.acode("history", "--json").Output()
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(out) {
		var e struct {
			Event   string
			Payload struct{ Usage struct{ Input int } }
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		if e.Event == "ModelAnswered" {
			tokens = append(tokens, e.Payload.Usage.Input)
		}
	}
	return tokens, nil
}
