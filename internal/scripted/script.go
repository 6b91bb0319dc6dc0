package scripted

import (
	"fmt"
	"slices"
	"strings"
)

// Call is one call of the script.
type Call struct {
	Tool string
	Args map[string]any
	// Mark is the word that the command writes to the ledger, with a random number. It is
	// empty for a call that writes nothing there.
	Mark string
	// Fails says that the result is a failure.
	Fails bool
	// Stops says that the client ends the command.
	Stops bool
	// Rests makes the client wait before the call until its earlier answers are settled.
	Rests bool
	// Of is the number of the earlier call, from 1, whose handle is the argument; 0 for
	// none.
	Of int
}

// Again is the mark of two equal calls. The second one is a new wish.
const Again = "again"

// Changes reports whether the call changes something.
func (c Call) Changes() bool {
	return !slices.Contains([]string{"read_file", "list_files", "search", "session_state", "command_output", "operation_result"}, c.Tool)
}

// ledger is the file to which commands append one line each.
const ledger = "ledger"

// command returns a script that prints a line, appends it to the ledger, and then does
// more. A client that finds the line in the ledger may stop the command.
func command(mark, more string) string {
	return fmt.Sprintf(`line="%s $(od -An -N8 -tx8 /dev/urandom | tr -d ' ')"; printf '%%s\n' "$line"; printf '%%s\n' "$line" >> %s; %s`, mark, ledger, more)
}

func run(mark, more string) Call {
	return Call{Tool: "run_command", Args: map[string]any{"command": command(mark, more)}, Mark: mark}
}

func write(path, content string) Call {
	return Call{Tool: "write_file", Args: map[string]any{"path": path, "content": content}}
}

func edit(path, before, after string) Call {
	return Call{Tool: "edit_file", Args: map[string]any{"path": path, "old_string": before, "new_string": after}}
}

func call(tool string, args ...string) Call {
	c := Call{Tool: tool, Args: map[string]any{}}
	for i := 0; i < len(args); i += 2 {
		c.Args[args[i]] = args[i+1]
	}
	return c
}

// Script returns 29 calls of every kind; wait_command and stop_command are calls for
// commands that outlast the patience of the server. Files holds the workspace after them,
// without the ledger.
func Script() []Call {
	output, result := Call{Tool: "command_output", Of: 23}, Call{Tool: "operation_result", Of: 15}
	fails, stops := run("mark7", "exit 3"), run("mark17", "sleep 5; exit 9")
	rests := call("read_file", "path", "a.txt")
	rests.Rests = true
	fails.Fails, stops.Fails, stops.Stops = true, true, true
	return []Call{
		write("a.txt", "one\ntail\n"),
		call("read_file", "path", "a.txt"),
		run("mark3", "true"),
		run(Again, "true"),
		edit("a.txt", "tail\n", "two\ntail\n"),
		edit("a.txt", "tail\n", "three\ntail\n"),
		call("list_files", "path", "."),
		fails,
		write("b.txt", strings.Repeat("line of b\n", 2000)),
		call("move_file", "from", "b.txt", "to", "dir/c.txt"),
		call("search", "pattern", "two"),
		run("mark11", "echo d > d.txt"),
		call("delete_file", "path", "d.txt"),
		write("d.txt", "again\n"),
		run("mark14", "sleep 0.3; cat a.txt"),
		edit("d.txt", "again\n", "again ${HOME}\n"),
		run("mark16", "cp d.txt e.txt"),
		stops,
		call("session_state"),
		write("dir/deep/f.txt", "f\n"),
		rests,
		run(Again, "true"),
		run("mark20", "cat dir/deep/f.txt; for i in 1 2 3; do echo $i; done"),
		output,
		result,
		call("move_file", "from", "e.txt", "to", "g.txt"),
		edit("g.txt", "again", "moved"),
		call("delete_file", "path", "d.txt"),
		run("mark24", "wc -l a.txt"),
	}
}

// Files returns the workspace after the script, without the ledger.
func Files() map[string]string {
	return map[string]string{
		"a.txt": "one\ntwo\nthree\ntail\n", "dir/c.txt": strings.Repeat("line of b\n", 2000), "g.txt": "moved ${HOME}\n", "dir/deep/f.txt": "f\n",
	}
}
