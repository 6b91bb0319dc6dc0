package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/acode-dev/acode/provider/script/server"
)

// modelSwitch is the first argument of this program when it plays the model of Claude
// Code in `make demo-tools`. Then follows the file to which it writes its address.
const modelSwitch = "model"

// demo returns the calls of the demonstration. Its commands append plain words to the
// ledger, for people.
func demo() []call {
	run := func(mark, text string) call {
		return call{tool: "run_command", args: map[string]any{"command": "echo " + mark + " >>ledger; " + text}, mark: mark}
	}
	edit := map[string]any{"path": "NOTES.md", "old_string": "1.4", "new_string": "1.4: faster"}
	return []call{
		write("NOTES.md", "Shop 1.4\n"),
		run("built", "sleep 3; echo shop.tar is ready"),
		{tool: "edit_file", args: edit, label: "Edit NOTES.md"},
		run("deployed", "sleep 3; echo deployed to production"),
		run("announced", "cat NOTES.md"),
	}
}

// modelMain serves the model until it is killed.
func modelMain(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("model: got %d arguments, want a file for the address", len(args))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[0], []byte("http://"+listener.Addr().String()), 0o600); err != nil {
		return err
	}
	m := &model{script: demo(), prefix: agents()["claude"].prefix, think: thinking}
	return http.Serve(listener, server.New(server.Options{Model: m.shown}))
}

// shown is next, and shows the answers that came last and the calls that follow.
func (m *model) shown(c server.Conversation) server.Reply {
	if n := len(c.Messages); n > 0 {
		for _, r := range c.Messages[n-1].Results {
			if answer, ok := parse(r.Text); ok {
				showAnswer(answer.Text)
			}
		}
	}
	reply := m.next(c)
	for _, call := range reply.Calls {
		var args map[string]any
		_ = json.Unmarshal(call.Arguments, &args) // the model wrote them itself
		showCall(strings.TrimPrefix(call.Name, m.prefix), args)
	}
	return reply
}

func showCall(tool string, args map[string]any) {
	for _, name := range []string{"command", "path", "handle"} {
		if v, ok := args[name]; ok {
			fmt.Printf("  → %s  %v\n", tool, v)
		}
	}
}

func showAnswer(text string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Println("  ←", line)
		}
	}
}
