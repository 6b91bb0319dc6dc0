package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// template renders a conversation. It ends with the token of the turn, which is the
// number of messages with calls.
const template = `{{ $n := "" }}{{ if .Tools }}tools {{ end }}{{ range .Messages }}{{ .Role }}: {{ .Content }}{{ if .ToolCalls }}[TOOL]{{ $n = printf "%sx" $n }}` +
	`{{ range .ToolCalls }}{"name": "{{ .Function.Name }}", "parameters": {{ .Function.Arguments }}}{{ end }}{{ end }}
{{ end }}<|turn{{ len $n }}|>`

// engine is a server of Ollama.
type engine struct {
	url string
	cmd *exec.Cmd
}

// patience limits each wait.
const patience = 2 * time.Minute

// serve starts a server in dir that has the model as "script".
func serve(ctx context.Context, program, dir string, model *table) (*engine, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	environ := append(os.Environ(), "HOME="+dir, "OLLAMA_HOST="+address, "OLLAMA_MODELS="+filepath.Join(dir, "models"))
	log, err := os.Create(filepath.Join(dir, "ollama.log"))
	if err != nil {
		return nil, err
	}
	e := &engine{url: "http://" + address, cmd: exec.CommandContext(ctx, program, "serve")}
	e.cmd.Env, e.cmd.Stdout, e.cmd.Stderr = environ, log, log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	e.cmd.Cancel = func() error { return syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL) }
	if err := e.cmd.Start(); err != nil {
		return nil, err
	}
	if err := until("the server of Ollama answers", func() bool { return e.post("/api/show", map[string]any{"model": "none"}, nil) != nil }); err != nil {
		return e, err
	}
	modelFile := filepath.Join(dir, "Modelfile")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "model.gguf"), model.bytes(), 0o600), os.WriteFile(modelFile, []byte("FROM ./model.gguf\nTEMPLATE \"\"\""+template+"\"\"\"\n"), 0o600)); err != nil {
		return e, err
	}
	create := exec.CommandContext(ctx, program, "create", "script", "-f", modelFile)
	create.Dir, create.Env = dir, environ
	if out, err := create.CombinedOutput(); err != nil {
		return e, fmt.Errorf("create the model: %w: %s", err, out)
	}
	return e, nil
}

// errStatus is an answer with another status than 200.
var errStatus = errors.New("the server refuses a request")

// post asks the server. Before it listens, post returns nil.
func (e *engine) post(path string, body any, answer any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.Post(e.url+path, "application/json", bytes.NewReader(raw))
	if err != nil {
		return nil
	}
	defer func() { _ = r.Body.Close() }() // it is read to its end
	out, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %s", errStatus, out)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(out, answer)
}

// rendered returns the text that the server makes of the body of a request.
func (e *engine) rendered(body []byte) (string, error) {
	var request map[string]any
	if err := json.Unmarshal(body, &request); err != nil {
		return "", err
	}
	request["stream"], request["_debug_render_only"] = false, true
	var answer struct {
		Info struct {
			Text string `json:"rendered_template"`
		} `json:"_debug_info"`
	}
	err := e.post("/api/chat", request, &answer)
	return answer.Info.Text, err
}

// stop ends the server and its processes.
func (e *engine) stop() {
	_ = syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	_ = e.cmd.Wait()
}

// until waits until ok.
func until(what string, ok func() bool) error {
	end := time.NewTimer(patience)
	defer end.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end.C:
			return fmt.Errorf("not in time: %s", what)
		}
	}
	return nil
}
