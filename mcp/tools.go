package mcp

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/tool"
)

func handle() tool.Argument {
	return tool.Text("handle", `the operation, for example "n12", from the result that named it`)
}

func freshArgument() tool.Argument {
	return tool.Argument{Name: tool.Fresh, Default: false, About: "carry the call out even if it equals an earlier one whose answer you may have lost"}
}

// tools returns all tools in the order in which they are listed.
func tools() []tool.Tool {
	all := append(tool.Work(),
		tool.Tool{Name: "wait_command", Title: "Wait for a command", About: "Wait for a command that still runs, and return its result.", Args: []tool.Argument{handle()}},
		tool.Tool{Name: "command_output", Title: "Read the output of a command", About: "Read a part of the output of a command, also while it runs.",
			Args: []tool.Argument{handle(), tool.Number("from", "the offset of the first byte", 0, 0, 1<<50), tool.Number("limit", "how many bytes at most", 20_000, 1, 100_000)}},
		tool.Tool{Name: "stop_command", Title: "Stop a command", Needs: tool.Commands, Destroys: true, Control: true, About: "End a command that still runs.", Args: []tool.Argument{handle()}},
		tool.Tool{Name: "session_state", Title: "Session state", About: "List the operations that still run, and those whose answers you may not have seen."},
		tool.Tool{Name: "operation_result", Title: "Result of an operation", About: "Return the recorded result of an operation. Nothing is carried out.", Args: []tool.Argument{handle()}},
	)
	for i := range all {
		if all[i].Name == "run_command" {
			all[i].About += " A long command returns a handle and continues; it also continues if you are interrupted."
		}
		if all[i].Changes() {
			all[i].Args = append(all[i].Args, freshArgument())
		}
	}
	return all
}

// operation returns the operation that a handle names.
func operation(handle string) (session.StepID, error) {
	id := session.CallsStep()
	id.Op = handle
	if n, err := strconv.Atoi(strings.TrimPrefix(handle, "n")); err != nil || n < 1 || session.CallID(session.CallsStep(), n) != id {
		return id, &session.Error{Code: session.ErrUnknownID, Message: fmt.Sprintf("%q is not a handle; nothing was changed", tool.Cut(handle, 60)),
			Next: session.Words("use the handle from a result; session_state lists those that are open")}
	}
	return id, nil
}

// grant says how a person allows the tools that change something.
const grant = "a person can start the server with --allow-write"
