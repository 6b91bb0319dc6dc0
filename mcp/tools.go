package mcp

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/acode-dev/acode/session"
)

func handle() argument {
	return text("handle", `the operation, for example "n12", from the result that named it`)
}

// fresh is an argument of every tool that changes something. Calls are equal without it.
const fresh = "fresh"

func freshArgument() argument {
	return argument{name: fresh, def: false, about: "carry the call out even if it equals an earlier one whose answer you may have lost"}
}

// tools returns all tools in the order in which they are listed.
func tools() []tool {
	dir := argument{name: "path", def: ".", path: true}
	where := dir
	where.about = "a directory, or a glob such as src/**/*.go"
	below := dir
	below.about = "a file, a directory or a glob to search in"
	all := []tool{
		{name: "read_file", title: "Read file", about: "Read lines of a text file. Secrets in it are masked with asterisks.",
			args: []argument{file("path", "the file, relative to the workspace"), number("line", "the first line, from 1", 1, 1, 1<<40), number("lines", "how many lines at most; 0 means as many as fit", 0, 0, 1<<40)}},
		{name: "list_files", title: "List files", about: "List a directory, or the files that match a glob.",
			args: []argument{where, number("limit", "how many entries at most", 1000, 1, 100_000)}},
		{name: "search", title: "Search", about: "Find lines that match a regular expression (RE2).",
			args: []argument{text("pattern", "a regular expression"), below}},
		{name: "write_file", title: "Write file", needs: powerFiles, destroys: true,
			about: "Write a whole file. A mask of asterisks in content stands for the secret that it masked in this file.",
			args:  []argument{file("path", "the file, relative to the workspace"), text("content", "the whole new content")}},
		{name: "edit_file", title: "Edit file", needs: powerFiles, destroys: true,
			about: "Replace a text in a file. The text must occur exactly once, unless replace_all is true.",
			args: []argument{file("path", "the file, relative to the workspace"), text("old_string", "the text to replace"), text("new_string", "the text to put in its place"),
				{name: "replace_all", def: false, about: "replace every occurrence"}}},
		{name: "delete_file", title: "Delete file", needs: powerFiles, destroys: true, about: "Delete a file.",
			args: []argument{file("path", "the file, relative to the workspace")}},
		{name: "move_file", title: "Move file", needs: powerFiles, destroys: true, about: "Move or rename a file. Nothing may exist at the new path.",
			args: []argument{file("from", "the file, relative to the workspace"), file("to", "its new path")}},
		{name: "run_command", title: "Run command", needs: powerCommands, destroys: true, open: true,
			about: "Run a command with /bin/sh -e -c. A long command returns a handle and continues; it also continues if you are interrupted.",
			args: []argument{text("command", "the command"), number("timeout_s", "end the command after this many seconds; 0 means never", 0, 0, 7*24*3600),
				{name: "dir", def: ".", path: true, about: "the directory to run in, relative to the workspace"}}},
		{name: "wait_command", title: "Wait for a command", about: "Wait for a command that still runs, and return its result.", args: []argument{handle()}},
		{name: "command_output", title: "Read the output of a command", about: "Read a part of the output of a command, also while it runs.",
			args: []argument{handle(), number("from", "the offset of the first byte", 0, 0, 1<<50), number("limit", "how many bytes at most", 20_000, 1, 100_000)}},
		{name: "stop_command", title: "Stop a command", needs: powerCommands, destroys: true, control: true, about: "End a command that still runs.", args: []argument{handle()}},
		{name: "session_state", title: "Session state", about: "List the operations that still run, and those whose answers you may not have seen."},
		{name: "operation_result", title: "Result of an operation", about: "Return the recorded result of an operation. Nothing is carried out.", args: []argument{handle()}},
	}
	for i := range all {
		if all[i].changes() {
			all[i].args = append(all[i].args, freshArgument())
		}
	}
	return all
}

// operation returns the operation that a handle names.
func operation(handle string) (session.StepID, error) {
	id := session.CallsStep()
	id.Op = handle
	if n, err := strconv.Atoi(strings.TrimPrefix(handle, "n")); err != nil || n < 1 || session.CallID(session.CallsStep(), n) != id {
		return id, &session.Error{Code: session.ErrUnknownID, Message: fmt.Sprintf("%q is not a handle; nothing was changed", cut(handle, 60)),
			Next: session.Words("use the handle from a result; session_state lists those that are open")}
	}
	return id, nil
}
