package agent

import (
	"encoding/json"

	"github.com/acode-dev/acode/session"
)

// proposeName is the tool with which a model proposes a plan.
const proposeName = "propose_plan"

// proposeSchema describes a plan in short. The parser of plans checks the rest, and its
// errors go back to the model.
const proposeSchema = `{"type":"object","required":["task","tasks"],"properties":{` +
	`"version":{"const":1},` +
	`"task":{"type":"string","description":"the whole work in one line"},` +
	`"max_parallel":{"type":"integer","description":"how many steps may run at once; default 1"},` +
	`"tasks":{"type":"array","items":{"type":"object","required":["id","steps"],"properties":{` +
	`"id":{"type":"string"},"title":{"type":"string"},` +
	`"depends_on":{"type":"array","items":{"type":"string"},"description":"ids of tasks that come first"},` +
	`"steps":{"type":"array","items":{"type":"object","required":["id"],"description":"an id, and exactly one of run, prompt, write, edit, delete, move, read, approve","properties":{` +
	`"id":{"type":"string"},"name":{"type":"string"},` +
	`"run":{"type":"string","description":"a command for /bin/sh -e; a failure stops the work"},` +
	`"prompt":{"type":"string","description":"work for a model, with all that it must know"},` +
	`"tools":{"type":"array","items":{"enum":["files","commands"]},"description":"beside prompt: what that model may use; without it, it can only read"},` +
	`"write":{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}}},` +
	`"edit":{"type":"object","properties":{"path":{"type":"string"},"old":{"type":"string"},"new":{"type":"string"}}},` +
	`"delete":{"type":"string","description":"a path"},` +
	`"move":{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"}}},` +
	`"approve":{"type":"string","description":"a question; the work waits for a yes of the person"}` +
	`}}}}}}}}`

// planning tells the model how to make a plan.
const planning = "\n- Do not do the work yet. Look at the files that you need, then call propose_plan once. A person sees the plan, and approves it or says what to change." +
	"\n- Prefer few tasks with clear results. Use run for commands that are known now, and prompt for work that needs judgement."

// withoutPlan reminds a model that answered without a plan.
const withoutPlan = "You answered without a plan. Call propose_plan with the whole plan, or call finish with the status failed and the reason."

func propose() session.ModelTool {
	return session.ModelTool{Name: proposeName, About: "Propose the plan of the work.", Schema: proposeSchema}
}

// proposal returns the work of a call that proposes a plan. The plan may be wrong.
func proposal(call session.ModelCall) session.CallWork {
	work := session.CallWork{Tool: call.Tool, Arguments: call.Arguments, Proposes: true}
	var plan map[string]json.RawMessage
	if json.Unmarshal([]byte(call.Arguments), &plan) != nil || plan["version"] != nil {
		return work
	}
	plan["version"] = json.RawMessage("1")
	if raw, err := json.Marshal(plan); err == nil {
		work.Arguments = string(raw)
	}
	return work
}
