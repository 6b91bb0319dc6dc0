package config

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/strictyaml"
)

// Model configures a model.
type Model struct {
	// Provider is one of script, openai, anthropic and ollama.
	Provider string
	// Script is the absolute path of the script of a model that follows one.
	Script string
	// Log is the absolute path of a file that gets each request; empty for none.
	Log string

	// Model is the provider's name of the model.
	Model string
	// BaseURL is https, or http to this machine. It is empty for the provider's own.
	BaseURL string
	// KeyName is the name of the environment variable that has the key; empty for none.
	KeyName string
	// ContextTokens and MaxOutputTokens are limits of the model; 0 if they are not given.
	ContextTokens, MaxOutputTokens int
	// Timeout limits each request; 0 means the default.
	Timeout time.Duration
	// Proxy is the URL of a proxy; empty for none.
	Proxy string
	// Price is nil if it is not given.
	Price *Price
}

// Price is the price of a million tokens, in millionths of the user's currency.
type Price struct {
	Input, Output, Cached int64
}

// modelsKey is the section of the models. Only the user's file may have it, because a
// project must not decide where the content of files goes.
const modelsKey = "models"

// providers are the valid values of provider.
func providers() []string { return []string{"script", "openai", "anthropic", "ollama"} }

// modelKey is a key of a model.
type modelKey struct {
	name, doc string
	// providers that have the key
	of []string
	// providers that need the key
	needs []string
	read  func(f *file, m *Model, v *strictyaml.Value)
}

// modelKeys returns the keys of a model.
func modelKeys() []modelKey {
	remote := providers()[1:]
	return []modelKey{
		{name: "provider", of: providers(), needs: providers(), doc: "Who answers: script follows a file with one reply a line; openai is any server with that API.",
			read: func(f *file, m *Model, v *strictyaml.Value) { m.Provider = f.OneOf(v, providers()...) }},
		{name: "script", of: []string{"script"}, needs: []string{"script"}, doc: "The script. Only with the provider script.",
			read: func(f *file, m *Model, v *strictyaml.Value) { m.Script = f.absolute(v) }},
		{name: "log", of: []string{"script"}, doc: "File that gets each request as a line of JSON. Only with the provider script.",
			read: func(f *file, m *Model, v *strictyaml.Value) { m.Log = f.absolute(v) }},
		{name: "model", of: remote, needs: remote, doc: "The provider's name of the model.",
			read: func(f *file, m *Model, v *strictyaml.Value) { m.Model = f.Shown(v, false) }},
		{name: "base_url", of: remote, doc: "Address of the server: https, or http to this machine. The default is that of the provider.",
			read: func(f *file, m *Model, v *strictyaml.Value) { m.BaseURL = f.address(v, "http") }},
		{name: "api_key_env", of: remote, doc: "Name of the environment variable with the key. It goes only to the host of base_url.",
			read: func(f *file, m *Model, v *strictyaml.Value) { m.KeyName = f.variable(v) }},
		{name: "context_tokens", of: providers(), needs: []string{"ollama"}, doc: "How many tokens the model can take. ollama needs it, because it cuts longer conversations silently.",
			read: func(f *file, m *Model, v *strictyaml.Value) { m.ContextTokens = f.tokens(v) }},
		{name: "max_output_tokens", of: remote, doc: "How many tokens a reply may have.",
			read: func(f *file, m *Model, v *strictyaml.Value) { m.MaxOutputTokens = f.tokens(v) }},
		{name: "timeout", of: remote, doc: "How long a reply may take. The default is 10m.",
			read: func(f *file, m *Model, v *strictyaml.Value) { m.Timeout = f.timeout(v) }},
		{name: "price", of: providers(), doc: "Price of a million tokens.",
			read: func(f *file, m *Model, v *strictyaml.Value) { m.Price = f.price(v) }},
		{name: "proxy", of: remote, doc: "URL of a proxy. acode takes none from the environment.",
			read: func(f *file, m *Model, v *strictyaml.Value) { m.Proxy = f.address(v, "http", "socks5") }},
	}
}

// models reads the section of the models.
func (f *file) models(v *strictyaml.Value) {
	if f.layer == layerProject {
		f.Fail(v.KeyAt, "remove it here and set it in your own file", "a project's file cannot set %s, only resume keys", modelsKey)
		return
	}
	if f.loader.models == nil {
		f.loader.models = map[string]Model{}
	}
	for _, entry := range f.Object(v).Fields {
		if !session.ValidName(entry.Key) {
			f.Fail(entry.KeyAt, "", "%q is not a name of a model: 1 to 64 letters, digits, dots, underscores and hyphens", entry.Key)
		}
		f.loader.models[entry.Key] = f.model(&entry)
		if entry.Kind() != strictyaml.Mapping {
			continue
		}
		for _, key := range f.Object(&entry).Fields {
			f.show(modelsKey+"."+entry.Key, &key)
		}
	}
}

// model reads one model.
func (f *file) model(entry *strictyaml.Value) (m Model) {
	keys := modelKeys()
	names := make([]string, 0, len(keys))
	for _, k := range keys {
		names = append(names, k.name)
	}
	o := f.Object(entry, names...)
	for _, k := range keys {
		v := o.Get(k.name)
		switch {
		case v == nil && slices.Contains(k.needs, m.Provider), v == nil && k.name == "provider":
			f.Need(o, k.name)
		case v == nil:
		case k.name != "provider" && m.Provider != "" && !slices.Contains(k.of, m.Provider):
			f.Fail(v.KeyAt, "remove it, or correct provider", "a model of the provider %s has no %s", m.Provider, k.name)
		default:
			k.read(f, &m, v)
		}
	}
	if u, err := url.Parse(m.BaseURL); err == nil && m.Proxy != "" && thisMachine(u.Hostname()) {
		f.Fail(o.Get("proxy").At, "remove it", "base_url is on this machine, which no proxy reaches")
	}
	return m
}

// show lists a setting, and each part of a price.
func (f *file) show(path string, v *strictyaml.Value) {
	path += "." + v.Key
	if v.Kind() != strictyaml.Mapping {
		f.loader.modelValues = append(f.loader.modelValues, Value{Key: path, Value: v.Written(), Origin: f.origin(v)})
		return
	}
	for _, part := range f.Object(v).Fields {
		f.show(path, &part)
	}
}

// absolute reads an absolute path; empty for no value.
func (f *file) absolute(v *strictyaml.Value) string {
	path, ok := absolute(v.Written(), f.loader.home)
	if !ok || v.Kind() != strictyaml.Text {
		f.Fail(v.At, "", "%s must be an absolute path, not %q", v, v.Written())
	}
	return path
}

// address reads an https URL. One with another scheme, which must be among others, must
// lead to this machine unless it is a proxy.
func (f *file) address(v *strictyaml.Value, others ...string) string {
	s := f.Filled(v)
	u, err := url.Parse(s)
	switch {
	case s == "":
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && !slices.Contains(others, u.Scheme):
		f.Fail(v.At, "", "%s must be an address that begins with https:// or %s://", v, strings.Join(others, ":// or "))
	case u.User != nil:
		f.Fail(v.At, "", "%s must have no name and no password in it", v)
	case v.Key == "base_url" && u.Scheme == "http" && !thisMachine(u.Hostname()):
		f.Fail(v.At, "use https", "%s is http and does not lead to this machine, so keys and files would cross the network unprotected", v)
	}
	return s
}

func thisMachine(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// variable reads the name of a variable. It does not show another text, which may be a
// key.
func (f *file) variable(v *strictyaml.Value) string {
	s := f.Filled(v)
	if s != "" && !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(s) {
		f.Fail(v.At, "put the key into an environment variable, and write its name here", "%s must be the name of an environment variable", v)
	}
	return s
}

// tokens reads a number of tokens.
func (f *file) tokens(v *strictyaml.Value) int {
	n, err := strconv.Atoi(v.Written())
	if v.Kind() != strictyaml.Int || err != nil || n < 1 || n > 1_000_000_000 {
		f.Fail(v.At, "", "%s must be a whole number from 1 to 1000000000, not %s", v, v.Describe())
	}
	return n
}

func (f *file) timeout(v *strictyaml.Value) time.Duration {
	d, err := time.ParseDuration(f.Filled(v))
	if err != nil || d < time.Second || d > 24*time.Hour {
		f.Fail(v.At, "", "%s must be a time from 1s to 24h, such as 90s or 10m", v)
	}
	return d
}

// price reads a price. Cached tokens cost as much as others unless it says otherwise.
func (f *file) price(v *strictyaml.Value) *Price {
	o := f.Object(v, "input", "output", "cached")
	p := &Price{Input: f.amount(f.Need(o, "input")), Output: f.amount(f.Need(o, "output"))}
	p.Cached = p.Input
	if c := o.Get("cached"); c != nil {
		p.Cached = f.amount(c)
	}
	return p
}

// amount reads a decimal number, and returns it in millionths.
func (f *file) amount(v *strictyaml.Value) int64 {
	if v == nil {
		return 0
	}
	n, ok := micros(v.Written())
	if !ok || v.Kind() == strictyaml.Mapping {
		f.Fail(v.At, "", "%s must be a decimal number such as 2.50, with at most 6 places, not %s", v, v.Describe())
		return 0
	}
	return n
}
