package agent

import (
	"fmt"

	talk "github.com/acode-dev/acode/agent"
	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/provider/script"
	"github.com/acode-dev/acode/session"
)

// model makes the model of a name from its configuration.
func model(name string, c config.Model) (app.Model, error) {
	if c.Provider != "script" {
		return nil, &session.Error{Code: session.ErrConfig, Message: fmt.Sprintf("the model %s has the unknown provider %q; nothing was changed", name, c.Provider)}
	}
	return script.Model{Name: name, File: c.Script, Log: c.Log}, nil
}

// converse returns an empty conversation.
func converse(step session.StepID, powers []string, workspace string) app.Conversation {
	return &talk.Conversation{Step: step, Powers: powers, Workspace: workspace, Decode: reply}
}

// reply reads the bytes of a reply of a provider.
func reply(provider string, raw []byte) (session.Reply, error) {
	if provider == "script" {
		return script.Model{}.Reply(raw)
	}
	return session.Reply{}, &session.Error{Code: session.ErrModel, Message: fmt.Sprintf("this program cannot read the replies of the provider %q", provider)}
}
