package main

import (
	"fmt"
	"maps"
	"strings"
)

// call is one call of the script.
type call struct {
	tool string
	args map[string]any
	// mark is the word that the command writes to the ledger with a random number. It is
	// empty for a call that writes nothing there.
	mark string
	// label is how acode's list of earlier calls names the call; empty if mark does.
	label string
	// fails says that the result is a failure.
	fails bool
	// shell does the same with a shell, for the tools of the client.
	shell string
}

// ledger is the file to which commands append one line each.
const ledger = "ledger"

// run returns a command that appends a line to the ledger, prints it, and then does
// more.
func run(mark, more string) call {
	text := fmt.Sprintf(`line="%s $(od -An -N8 -tx8 /dev/urandom | tr -d ' ')"; printf '%%s\n' "$line" >> %s; printf '%%s\n' "$line"; %s`, mark, ledger, more)
	return call{tool: "run_command", args: map[string]any{"command": text}, mark: mark, shell: "(" + text + ")"}
}

func write(path, content string) call {
	return call{tool: "write_file", args: map[string]any{"path": path, "content": content}, label: "Write " + path,
		shell: fmt.Sprintf("printf %%s '%s' > %s", content, path)}
}

// before inserts a line before the line "tail". Done twice, it inserts it twice.
func before(path, line string) call {
	return call{tool: "edit_file", args: map[string]any{"path": path, "old_string": "tail\n", "new_string": line + "\ntail\n"}, label: "Edit " + path,
		shell: fmt.Sprintf(`sed -i 's/^tail$/%s\ntail/' %s`, line, path)}
}

// script returns the calls, with about three seconds of waiting. Two calls next to each
// other do not depend on one another, so that they may be carried out at once.
func script() []call {
	fails := run("mark06", "exit 3")
	fails.fails = true
	return []call{
		write("a.txt", "one\ntail\n"),
		run("mark02", "true"),
		before("a.txt", "two"),
		run("mark04", "sleep 0.3; echo done"),
		{tool: "read_file", args: map[string]any{"path": "a.txt"}, shell: "cat a.txt"},
		fails,
		write("b.txt", "tail\n"),
		run("mark08", "sleep 1.3; echo done"),
		before("b.txt", "three"),
		run("mark11", "sleep 0.3; wc -l a.txt"),
		{tool: "move_file", args: map[string]any{"from": "b.txt", "to": "dir/c.txt"}, label: "Move b.txt", shell: "mkdir -p dir; mv b.txt dir/c.txt"},
		run("mark12", "sleep 0.2"),
		{tool: "delete_file", args: map[string]any{"path": "dir/c.txt"}, label: "Delete dir/c.txt", shell: "rm dir/c.txt"},
		run("mark14", "sleep 0.2; cat a.txt"),
	}
}

// files returns the workspace after the script, without the ledger.
func files() map[string]string { return map[string]string{"a.txt": "one\ntwo\ntail\n"} }

// reworded returns the arguments of a call in other words, with the same effect. n
// numbers the wordings; 0 is the first.
func (c call) reworded(n int) map[string]any {
	args := maps.Clone(c.args)
	switch c.tool {
	case "run_command":
		args["command"] = strings.Repeat("true; ", n) + args["command"].(string)
	case "edit_file":
		if n%2 == 1 {
			args["old_string"], args["new_string"] = strings.TrimSuffix(args["old_string"].(string), "\n"), strings.TrimSuffix(args["new_string"].(string), "\n")
		}
	case "write_file", "delete_file", "read_file":
		args["path"] = strings.Repeat("./", n) + args["path"].(string)
	}
	return args
}
