package config_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v4"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/session"
)

const someModels = `model: small
models:
  small: {provider: script, script: ~/a.jsonl}
  other: {provider: script, script: /b, log: /c}
  big:
    provider: openai
    model: gpt-5
    base_url: https://models.example/v1
    api_key_env: BIG_KEY
    context_tokens: 400000
    max_output_tokens: 32000
    timeout: 5m
    price: {input: 1.25, output: "10", cached: 0.125}
    proxy: http://proxy.example:3128
  home: {provider: ollama, model: llama, context_tokens: 8192, base_url: "http://127.0.0.1:11434"}
  bare: {provider: anthropic, model: claude, price: {input: 3, output: 15}}
`

// The user's file names models, and which of them prompts ask.
func TestModels(t *testing.T) {
	l := load(t, sources(someModels, ""))
	want := map[string]config.Model{
		"small": {Provider: "script", Script: "/home/me/a.jsonl"}, "other": {Provider: "script", Script: "/b", Log: "/c"},
		"big": {Provider: "openai", Model: "gpt-5", BaseURL: "https://models.example/v1", KeyName: "BIG_KEY", ContextTokens: 400_000, MaxOutputTokens: 32_000, Timeout: 5 * time.Minute,
			Price: &config.Price{Input: 1_250_000, Output: 10_000_000, Cached: 125_000}, Proxy: "http://proxy.example:3128"},
		"home": {Provider: "ollama", Model: "llama", ContextTokens: 8192, BaseURL: "http://127.0.0.1:11434"},
		"bare": {Provider: "anthropic", Model: "claude", Price: &config.Price{Input: 3_000_000, Output: 15_000_000, Cached: 3_000_000}},
	}
	if diff := cmp.Diff(want, l.Config.Models); diff != "" || l.Config.Model != "small" {
		t.Errorf("Load: got model %q, models (-want +got):\n%s", l.Config.Model, diff)
	}
	for key, origin := range map[string]string{"models.small.script": "/u/config.yml:3", "models.big.price.cached": "/u/config.yml:13"} {
		if !slices.ContainsFunc(l.Values, func(v config.Value) bool { return v.Key == key && v.Origin == origin }) {
			t.Errorf("Values: got %v, want %s of %s", l.Values, key, origin)
		}
	}
	if err := validModels(t, someModels); err != nil {
		t.Errorf("the schema refuses the models: %v", err)
	}
}

// validModels checks a configuration with the schema.
func validModels(t *testing.T, text string) error {
	t.Helper()
	var schema jsonschema.Schema
	var doc any
	if err := errors.Join(json.Unmarshal(config.Schema(), &schema), yaml.Unmarshal([]byte(text), &doc)); err != nil {
		t.Fatal(err)
	}
	rules, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return rules.Validate(doc)
}

// A model has the keys of its provider only. The schema refuses most of the same, but it
// cannot know which keys belong together. No error shows a key.
func TestModelsRefused(t *testing.T) {
	const openai = "models:\n  a: {provider: openai, model: m, "
	for name, tt := range map[string]struct {
		text, place, want string
		schema            bool
	}{
		"no_provider":      {"models:\n  a: {model: m}\n", ":2:6", `"a" needs the key "provider"`, true},
		"provider":         {"models:\n  a: {provider: gemini, model: m}\n", ":2:17", `openai`, true},
		"no_model":         {"models:\n  a: {provider: openai}\n", ":2:6", `"a" needs the key "model"`, true},
		"script_elsewhere": {openai + "script: /a}\n", ":2:35", "a model of the provider openai has no script", false},
		"model_of_script":  {"models:\n  a: {provider: script, script: /a, base_url: https://x}\n", ":2:37", "a model of the provider script has no base_url", false},
		"no_context":       {"models:\n  a: {provider: ollama, model: m}\n", ":2:6", `needs the key "context_tokens"`, true},
		"plain":            {openai + "base_url: http://models.example/v1}\n", ":2:45", "is http and does not lead to this machine", false},
		"plain_like_ours":  {openai + "base_url: http://127.0.0.1.example/v1}\n", ":2:45", "is http and does not lead to this machine", false},
		"other_scheme":     {openai + "base_url: ftp://models.example}\n", ":2:45", "must be an address that begins with https:// or http://", true},
		"password":         {openai + "base_url: https://me:hunter22@models.example}\n", ":2:45", "must have no name and no password", false},
		"query":            {openai + "base_url: https://models.example?a=b}\n", ":2:45", "must be an address", false},
		"key":              {openai + "api_key_env: sk-hunter22-hunter22}\n", ":2:48", "must be the name of an environment variable", true},
		"key_by_name":      {openai + "api_key: hunter22}\n", ":2:35", `unknown key "api_key"`, true},
		"tokens":           {openai + "context_tokens: 0}\n", ":2:51", "must be a whole number from 1", true},
		"tokens_text":      {openai + "max_output_tokens: \"5\"}\n", ":2:54", "must be a whole number from 1", true},
		"timeout":          {openai + "timeout: 1ms}\n", ":2:44", "must be a time from 1s to 24h", false},
		"price":            {openai + "price: {input: 1}}\n", ":2:42", `needs the key "output"`, true},
		"price_places":     {openai + "price: {input: 1, output: 0.0000001}}\n", ":2:61", "at most 6 places", false},
		"price_negative":   {openai + "price: {input: -1, output: 1}}\n", ":2:50", "must be a decimal number", false},
		"proxy_loopback":   {openai + "base_url: http://localhost:1/v1, proxy: http://p}\n", ":2:75", "which no proxy reaches", false},
		"proxy_tls":        {openai + "base_url: https://127.0.0.1:1/v1, proxy: http://p}\n", ":2:76", "which no proxy reaches", false},
		"proxy":            {openai + "proxy: p:3128}\n", ":2:42", "must be an address that begins with https:// or http:// or socks5://", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(sources(tt.text, ""))
			var e *session.Error
			if !errors.As(err, &e) || e.Code != session.ErrConfig || e.Place != "/u/config.yml"+tt.place || !strings.Contains(e.Message, tt.want) {
				t.Errorf("Load: got %#v, want %s at %s", err, tt.want, tt.place)
			}
			if strings.Contains(err.Error(), "hunter22") {
				t.Errorf("Load shows the key: %v", err)
			}
			if valid := validModels(t, tt.text); (valid != nil) != tt.schema {
				t.Errorf("the schema: got %v, want refused %v", valid, tt.schema)
			}
		})
	}
}
