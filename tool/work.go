package tool

import (
	"fmt"
	"time"

	"github.com/acode-dev/acode/session"
)

// Work returns the tools for files and commands, in the order in which they are listed.
func Work() []Tool {
	dir := Argument{Name: "path", Default: ".", Path: true}
	where := dir
	where.About = "a directory, or a glob such as src/**/*.go"
	below := dir
	below.About = "a file, a directory or a glob to search in"
	return []Tool{
		{Name: "read_file", Title: "Read file", About: "Read lines of a text file. Secrets in it are masked with asterisks.",
			Args: []Argument{File("path", "the file, relative to the workspace"), Number("line", "the first line, from 1", 1, 1, 1<<40), Number("lines", "how many lines at most; 0 means as many as fit", 0, 0, 1<<40)}},
		{Name: "list_files", Title: "List files", About: "List a directory, or the files that match a glob.",
			Args: []Argument{where, Number("limit", "how many entries at most", 1000, 1, 100_000)}},
		{Name: "search", Title: "Search", About: "Find lines that match a regular expression (RE2).",
			Args: []Argument{Text("pattern", "a regular expression"), below}},
		{Name: "write_file", Title: "Write file", Needs: Files, Destroys: true,
			About: "Write a whole file. A mask of asterisks in content stands for the secret that it masked in this file.",
			Args:  []Argument{File("path", "the file, relative to the workspace"), Text("content", "the whole new content")}},
		{Name: "edit_file", Title: "Edit file", Needs: Files, Destroys: true,
			About: "Replace a text in a file. The text must occur exactly once, unless replace_all is true.",
			Args: []Argument{File("path", "the file, relative to the workspace"), Text("old_string", "the text to replace"), Text("new_string", "the text to put in its place"),
				{Name: "replace_all", Default: false, About: "replace every occurrence"}}},
		{Name: "delete_file", Title: "Delete file", Needs: Files, Destroys: true, About: "Delete a file.",
			Args: []Argument{File("path", "the file, relative to the workspace")}},
		{Name: "move_file", Title: "Move file", Needs: Files, Destroys: true, About: "Move or rename a file. Nothing may exist at the new path.",
			Args: []Argument{File("from", "the file, relative to the workspace"), File("to", "its new path")}},
		{Name: "run_command", Title: "Run command", Needs: Commands, Destroys: true, Open: true, About: "Run a command with /bin/sh -e -c.",
			Args: []Argument{Text("command", "the command"), Number("timeout_s", "end the command after this many seconds; 0 means never", 0, 0, 7*24*3600),
				{Name: "dir", Default: ".", Path: true, About: "the directory to run in, relative to the workspace"}}},
	}
}

// Step returns the work of a call of a tool of Work in acode's terms.
func (t Tool) Step(args Arguments) session.Step {
	s := session.Step{ID: "call"}
	change := func(c session.Change) {
		s.Kind, s.Changes = c.Op, []session.Change{c}
	}
	switch t.Name {
	case "read_file", "list_files":
		s.Kind, s.Read = session.KindRead, &session.Read{Path: args.Text("path")}
	case "search":
		s.Kind, s.Search = session.KindSearch, &session.Search{Pattern: args.Text("pattern"), Path: args.Text("path")}
	case "write_file":
		change(session.Change{Op: session.KindWrite, Path: args.Text("path"), Content: args.Text("content")})
	case "edit_file":
		change(session.Change{Op: session.KindEdit, Path: args.Text("path"), Old: args.Text("old_string"), New: args.Text("new_string"), All: args.Yes("replace_all")})
	case "delete_file":
		change(session.Change{Op: session.KindDelete, Path: args.Text("path")})
	case "move_file":
		change(session.Change{Op: session.KindMove, From: args.Text("from"), To: args.Text("to")})
	case "run_command":
		s.Kind = session.KindRun
		s.Run = &session.Run{Shell: args.Text("command"), Timeout: time.Duration(args.Number("timeout_s")) * time.Second}
		if dir := args.Text("dir"); dir != "." {
			s.Run.Dir = dir
		}
	}
	return s
}

// Ended says for a model how a command ended.
func Ended(c session.CommandResult) string {
	switch {
	case c.StartError != "":
		return "The command could not start: " + c.StartError + ":"
	case c.TimedOut:
		return "TIMED OUT: the command was ended"
	case c.Cancelled:
		return "STOPPED: the command was ended"
	case c.Signal != "":
		return "Ended by " + c.Signal
	}
	return fmt.Sprintf("Exit status %d", c.Exit)
}
