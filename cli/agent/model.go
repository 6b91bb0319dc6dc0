package agent

import (
	"cmp"
	"fmt"
	"os"
	"time"

	talk "github.com/acode-dev/acode/agent"
	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/provider/anthropic"
	"github.com/acode-dev/acode/provider/ollama"
	"github.com/acode-dev/acode/provider/openai"
	"github.com/acode-dev/acode/provider/script"
	"github.com/acode-dev/acode/provider/wire"
	"github.com/acode-dev/acode/session"
)

// model makes the model of a name from its configuration.
func model(name string, c config.Model) (app.Model, error) {
	switch c.Provider {
	case "script":
		return script.Model{Name: name, File: c.Script, Log: c.Log}, nil
	case openai.Provider:
		return openai.New(reached(name, c, openai.DefaultURL))
	case anthropic.Provider:
		return anthropic.New(reached(name, c, anthropic.DefaultURL))
	case ollama.Provider:
		return ollama.New(reached(name, c, ollama.DefaultURL))
	}
	return nil, &session.Error{Code: session.ErrConfig, Message: fmt.Sprintf("the model %s has the unknown provider %q; nothing was changed", name, c.Provider)}
}

// reached says how a model is reached. url is the base URL of its provider.
func reached(name string, c config.Model, url string) wire.Options {
	return wire.Options{Name: name, Model: c.Model, BaseURL: cmp.Or(c.BaseURL, url), KeyName: c.KeyName, Key: os.Getenv(c.KeyName), Proxy: c.Proxy,
		ContextTokens: c.ContextTokens, MaxOutputTokens: c.MaxOutputTokens, Timeout: c.Timeout, Now: time.Now}
}

// proposal parses a plan that a model proposes.
func proposal(raw []byte) (*session.Plan, error) { return plan.Parse("plan", raw) }

// converse returns an empty conversation.
func converse(step session.StepID, p *session.Prompt, workspace string) app.Conversation {
	return &talk.Conversation{Step: step, Powers: p.Tools, Plans: p.Plans, Workspace: workspace, Decode: reply}
}

// reply reads the bytes of a reply of a provider.
func reply(provider string, raw []byte) (session.Reply, error) {
	switch provider {
	case "script":
		return script.Model{}.Reply(raw)
	case openai.Provider:
		return openai.Model{}.Reply(raw)
	case anthropic.Provider:
		return anthropic.Model{}.Reply(raw)
	case ollama.Provider:
		return ollama.Model{}.Reply(raw)
	}
	return session.Reply{}, &session.Error{Code: session.ErrModel, Message: fmt.Sprintf("this program cannot read the replies of the provider %q", provider)}
}
