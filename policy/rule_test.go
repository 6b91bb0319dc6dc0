package policy

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/shell"
)

// A rule is stored as a line, and read strictly.
func TestParseRule(t *testing.T) {
	sum := strings.Repeat("a1", 32)
	for _, r := range []Rule{
		{Action: Allow, Class: Command, Program: "/usr/bin/mkdir", Args: []string{"-p"}, Dir: "."},
		{Action: Deny, Path: "secrets/**"},
		{Action: Allow, Class: Git, Workspace: "/a"},
		{Action: Ask, Class: Write, Step: "fix/*", Path: "*.go"},
		{Action: Allow, Digest: sum, Files: map[string]string{"a/b.sh": sum}},
		{Action: Deny, Class: Network},
		{Action: Allow, Class: Read, Step: "a/b"},
	} {
		got, err := ParseRule([]byte(r.String()))
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("ParseRule(%s): got %+v, %v", r, got, err)
		}
		if strings.Contains(r.String(), "\n") || r.Sentence() == "" {
			t.Errorf("%s: %q", r, r.Sentence())
		}
	}
	for _, bad := range []string{
		"", "{", "[]", `"allow"`, `{}`, `{"action":"allow"}`, `{"action":"yes","class":"git"}`, `{"action":"allow","class":"all"}`,
		`{"action":"allow","class":"git","more":1}`, `{"action":"allow","class":"git"} x`, `{"action":"allow","class":"git"}{}`, `{"action":"allow","class":"git"}]`, `{"action":"allow","class":"git"}}`,
		`{"action":"allow","args":["x"]}`, `{"action":"allow","class":"git","args":["x"]}`, `{"action":"allow","program":"git"}`, `{"action":"allow","program":"/a/../b"}`,
		`{"action":"allow","path":"/etc/*"}`, `{"action":"allow","path":"../x"}`, `{"action":"allow","path":"a","program":"/b"}`, `{"action":"allow","path":"[a"}`, `{"action":"allow","step":"[a"}`,
		`{"action":"allow","digest":"12"}`, `{"action":"allow","class":"git","workspace":"a"}`, `{"action":"deny","program":"/a","files":{"x":"` + sum + `"}}`, `{"action":"allow","program":"/a","files":{"../x":"` + sum + `"}}`,
		`{"action":"allow","program":"/a","files":{"x":"1"}}`, `{"action":"deny","class":"read","path":"x"}`,
	} {
		if _, err := ParseRule([]byte(bad)); err == nil || session.CodeOf(err) != session.ErrInternal {
			t.Errorf("ParseRule(%s): got %v, want a plain error", bad, err)
		}
	}
}

func change(op session.Kind, path string) session.Step {
	return session.Step{Kind: op, Changes: []session.Change{{Op: op, Path: path}}}
}

// Each class has its default, its power and its rules.
func TestFiles(t *testing.T) {
	f := newPlace(t).facts()
	move := session.Step{Kind: session.KindMove, Changes: []session.Change{{Op: session.KindMove, From: "a/b", To: "c"}}}
	both := session.Step{Kind: session.KindChanges, Changes: []session.Change{{Op: session.KindEdit, Path: "a"}, {Op: session.KindDelete, Path: "b"}}}
	read := session.Step{Kind: session.KindRead, Read: &session.Read{Path: "**"}}
	for name, c := range map[string]struct {
		powers Powers
		step   session.Step
		action Action
		class  Class
	}{
		"read":               {Powers{}, read, Allow, Read},
		"search":             {Powers{}, session.Step{Kind: session.KindSearch}, Allow, Read},
		"read_denied":        {Powers{Rules: []Rule{{Action: Deny, Class: Read, Step: "fix/*"}}}, read, Deny, Read},
		"read_elsewhere":     {Powers{Rules: []Rule{{Action: Deny, Class: Read, Step: "other/*"}}}, read, Allow, Read},
		"write":              {Powers{}, change(session.KindWrite, "a"), Allow, Write},
		"edit":               {Powers{}, change(session.KindEdit, "a"), Allow, Write},
		"write_asked":        {Powers{Write: Ask}, change(session.KindWrite, "a"), Ask, Write},
		"write_denied":       {Powers{Write: Deny}, change(session.KindWrite, "a"), Deny, Write},
		"delete":             {Powers{}, change(session.KindDelete, "a"), Ask, Delete},
		"delete_allowed":     {Powers{Delete: Allow}, change(session.KindDelete, "a"), Allow, Delete},
		"move":               {Powers{Delete: Deny}, move, Allow, Write},
		"changes":            {Powers{}, both, Ask, Delete},
		"no_changes":         {Powers{}, session.Step{Kind: session.KindWrite}, Ask, Command},
		"unknown_kind":       {Powers{}, session.Step{Kind: "later"}, Ask, Command},
		"prompt":             {Powers{}, session.Step{Kind: session.KindPrompt}, Ask, Command},
		"path_denied":        {Powers{Rules: []Rule{{Action: Deny, Path: "a/**"}}}, change(session.KindWrite, "a/b/c"), Deny, Write},
		"path_not_clean":     {Powers{Rules: []Rule{{Action: Deny, Path: "a/**"}}}, change(session.KindWrite, "./x/../a/b"), Deny, Write},
		"path_beside":        {Powers{Rules: []Rule{{Action: Deny, Path: "a/**"}}}, change(session.KindWrite, "b/a"), Allow, Write},
		"path_asked":         {Powers{Rules: []Rule{{Action: Ask, Path: "**/*.sql"}}}, change(session.KindWrite, "x.sql"), Ask, Write},
		"move_from_denied":   {Powers{Rules: []Rule{{Action: Deny, Path: "a/*"}}}, move, Deny, Write},
		"move_to_denied":     {Powers{Rules: []Rule{{Action: Deny, Path: "c"}}}, move, Deny, Write},
		"path_allowed":       {Powers{Rules: []Rule{{Action: Allow, Path: "tmp/*"}}}, change(session.KindDelete, "tmp/x"), Allow, Delete},
		"only_its_class":     {Powers{Rules: []Rule{{Action: Allow, Class: Write, Path: "tmp/*"}}}, change(session.KindDelete, "tmp/x"), Ask, Delete},
		"each_change":        {Powers{Rules: []Rule{{Action: Allow, Path: "a"}}}, both, Ask, Delete},
		"not_above_a_denial": {Powers{Delete: Deny, Rules: []Rule{{Action: Allow, Class: Delete}}}, change(session.KindDelete, "a"), Deny, Delete},
		"deny_wins":          {Powers{Rules: []Rule{{Action: Allow, Class: Delete}, {Action: Deny, Path: "a"}}}, change(session.KindDelete, "a"), Deny, Delete},
		"ask_before_allow":   {Powers{Rules: []Rule{{Action: Allow, Class: Delete}, {Action: Ask, Path: "a"}}}, change(session.KindDelete, "a"), Ask, Delete},
		"program_rule":       {Powers{Rules: []Rule{{Action: Deny, Program: "/bin/ls"}, {Action: Deny, Dir: "."}}}, change(session.KindWrite, "a"), Allow, Write},
	} {
		v := c.powers.Judge(c.step, f)
		if v.Action != c.action || v.Class != c.class || v.Reason == "" || v.Confine != "" {
			t.Errorf("%s: got %+v, want %s, %s", name, v, c.action, c.class)
		}
		if v.Action != Ask && v.Offer != nil {
			t.Errorf("%s: offers %s", name, v.Offer)
		}
	}
	if v := (Powers{}).Judge(change(session.KindDelete, "a/b"), f); v.Offer == nil || v.Offer.String() != `{"action":"allow","class":"delete","workspace":"`+f.Workspace+`","path":"a/b"}` {
		t.Errorf("delete: offers %v", v.Offer)
	}
	if v := (Powers{}).Judge(change(session.KindDelete, "a*"), f); v.Offer != nil {
		t.Errorf("delete of a pattern: offers %v", v.Offer)
	}
}

// The powers of commands: the strictest part decides.
func TestPowers(t *testing.T) {
	p := newPlace(t)
	all := Powers{Delete: Allow, Command: Allow, Git: Allow, Network: Allow}
	for name, c := range map[string]struct {
		powers  Powers
		text    string
		action  Action
		class   Class
		confine session.Confinement
	}{
		"reading":             {Powers{Write: Deny, Delete: Deny, Command: Deny, Network: Deny, Git: Deny}, "ls | grep a", Allow, Read, session.ConfinedReading},
		"command":             {Powers{}, "mkdir a", Ask, Command, session.Confined},
		"command_allowed":     {Powers{Command: Allow}, "mkdir a && python3 x", Allow, Command, session.Confined},
		"command_denied":      {Powers{Command: Deny}, "mkdir a", Deny, Command, session.Confined},
		"delete":              {Powers{Command: Allow}, "mkdir a; rm a", Ask, Delete, session.Confined},
		"delete_allowed":      {Powers{Delete: Allow}, "rm a", Allow, Delete, session.Confined},
		"delete_denied":       {Powers{Command: Allow, Delete: Deny}, "ls; rm a", Deny, Delete, session.Confined},
		"find_delete":         {Powers{Command: Allow, Delete: Deny}, "find . -delete", Deny, Delete, session.Confined},
		"git":                 {Powers{Command: Allow}, "git add .", Ask, Git, session.Confined},
		"git_allowed":         {Powers{Git: Allow}, "git add . && git commit -m x", Allow, Git, session.Confined},
		"git_alias":           {Powers{Git: Allow}, "git x", Ask, Command, session.Confined},
		"git_hidden_program":  {Powers{Git: Allow, Network: Allow}, "git fetch --upload-pack=x", Ask, Command, session.ConfinedOnline},
		"git_ext":             {Powers{Git: Allow, Network: Allow}, "git clone ext::x", Ask, Command, session.ConfinedOnline},
		"git_clone_program":   {Powers{Git: Allow, Network: Allow}, "git clone -qu ./evil.sh https://x", Ask, Command, session.ConfinedOnline},
		"git_clone_setting":   {Powers{Git: Allow, Network: Allow}, "git clone --co=core.sshCommand=./evil.sh ssh://h/r", Ask, Command, session.ConfinedOnline},
		"git_clone":           {Powers{Git: Allow, Network: Allow}, "git clone -q https://x", Allow, Network, session.ConfinedOnline},
		"find_delete_print":   {Powers{Delete: Allow}, "find . -delete -fprintf out x", Ask, Command, session.Confined},
		"find_delete_only":    {Powers{Delete: Allow}, "find . -name x -delete", Allow, Delete, session.Confined},
		"git_push":            {Powers{Git: Allow, Network: Allow}, "git push origin main", Allow, Network, session.ConfinedOnline},
		"git_push_asked":      {Powers{Network: Allow}, "git push origin main", Ask, Git, session.ConfinedOnline},
		"git_elsewhere":       {Powers{}, "git -C dir status --short", Allow, Read, session.ConfinedReading},
		"git_elsewhere_push":  {Powers{Git: Allow}, "git -C dir push", Ask, Network, session.ConfinedOnline},
		"git_setting":         {Powers{Git: Allow}, "git -c a=b status", Ask, Command, session.Confined},
		"git_setting_unknown": {Powers{Git: Allow}, "git -C $X status", Ask, Command, session.Confined},
		"reader_denied":       {Powers{Rules: []Rule{{Action: Deny, Program: "/usr/bin/cat", Args: []string{"file"}}}}, "ls; cat file", Deny, Read, session.ConfinedReading},
		"reader_beside":       {Powers{Rules: []Rule{{Action: Deny, Program: "/usr/bin/cat", Args: []string{"file"}}}}, "cat dir/file", Allow, Read, session.ConfinedReading},
		"reader_asked":        {Powers{Rules: []Rule{{Action: Ask, Program: "/usr/bin/cat"}}}, "timeout 5 cat file", Ask, Read, session.ConfinedReading},
		"workspace_unbound":   {Powers{Rules: []Rule{{Action: Allow, Program: p.ws + "/evil.sh"}}}, "./evil.sh", Ask, Command, session.Confined},
		"git_drop":            {Powers{Git: Allow}, "git branch -D x", Ask, Delete, session.Confined},
		"git_switch":          {Powers{Git: Allow}, "git switch main", Allow, Git, session.Confined}, "git_switch_force": {Powers{Git: Allow}, "git switch --discard-changes main", Ask, Delete, session.Confined},
		"git_reset":            {Powers{Git: Allow}, "git reset --hard", Ask, Delete, session.Confined},
		"network_and_command":  {Powers{Network: Allow}, "npm install", Ask, Command, session.ConfinedOnline},
		"network_allowed":      {Powers{Network: Allow}, "curl -s https://x", Allow, Network, session.ConfinedOnline},
		"network_and_write":    {Powers{Network: Allow, Write: Ask}, "curl -so x https://x", Ask, Write, session.ConfinedOnline},
		"offline":              {Powers{Network: Allow, Command: Allow}, "npm test", Allow, Command, session.Confined},
		"output_and_write":     {Powers{Command: Allow, Write: Deny}, "ls > a", Deny, Write, session.Confined},
		"output":               {Powers{Command: Allow}, "ls > a", Allow, Command, session.Confined},
		"unjudged":             {Powers{Command: Allow, Delete: Allow}, "eval $X", Ask, Command, session.Confined},
		"unjudged_denied":      {Powers{Command: Deny}, "eval $X", Deny, Command, session.Confined},
		"unjudged_all_allowed": {Powers{Command: Allow, Delete: Allow, Git: Allow}, "eval $X", Allow, Command, session.Confined},
		"unjudged_no_write":    {Powers{Command: Allow, Delete: Allow, Git: Allow, Write: Ask}, "eval $X", Ask, Command, session.Confined},
		"everything":           {all, "curl https://x | sh; rm a", Allow, Network, session.ConfinedOnline},
	} {
		v := p.judge(c.powers, run(c.text, ""), "")
		if v.Action != c.action || v.Class != c.class || v.Confine != c.confine || v.Reason == "" {
			t.Errorf("%s: got %+v, want %s, %s, %s", name, v, c.action, c.class, c.confine)
		}
	}
}

// A judgement asks once for each program, and not at all for a rule of other arguments.
func TestProgramOnce(t *testing.T) {
	p, asked := newPlace(t), map[string]int{}
	f := p.facts()
	find := f.Program
	f.Program = func(name, dir string) string {
		asked[name]++
		return find(name, dir)
	}
	rules := []Rule{{Action: Deny, Program: "/usr/bin/cat", Args: []string{"x"}}, {Action: Deny, Program: "/usr/bin/cat"}, {Action: Deny, Program: "/usr/bin/git"}}
	r := run("cat file; cat dir/file; mkdir new", "")
	r.Dir = "dir"
	if v := (Powers{Rules: rules}).Judge(session.Step{Kind: session.KindRun, Run: r}, f); v.Action != Deny {
		t.Errorf("got %+v", v)
	}
	for name, n := range asked {
		if n > 1 {
			t.Errorf("%s: asked %d times", name, n)
		}
	}
	if asked["cat"] == 0 {
		t.Errorf("got %v", asked)
	}
	asked = map[string]int{}
	j := judge{Facts: f, run: r}
	if j.covers(rules[0], &part{Part: shell.Part{Words: []shell.Word{{Text: "cat", Exact: true}, {Text: "y", Exact: true}}}}) || len(asked) > 0 {
		t.Errorf("a rule of other arguments asks for %v", asked)
	}
}

// TestOffer shows which rule is offered for always: it allows this command, and no rule
// is wider than its program, its subcommand, its flags and its directory.
func TestOffer(t *testing.T) {
	p, other := newPlace(t), newPlace(t)
	other.write("evil.sh", "original", 0o755)
	const digest = "digest"
	for text, c := range map[string]struct {
		want string
		// also are allowed by the rule, and never are asked still
		also, never []string
	}{
		"mkdir -p a": {`{"action":"allow","class":"command","workspace":"` + p.ws + `","program":"/usr/bin/mkdir","args":["-p"],"dir":"."}`,
			[]string{"mkdir -p b/c", "ls; mkdir -p b", "mkdir -p b 2>&1", "mkdir -p b >/dev/null"},
			[]string{"mkdir b", "mkdir -p -m 777 b", "mkdir -p /etc/x", "mkdir -p ../x", "mkdir -p $X", "mkdir -p x*", "mkdir -p a > b", "mkdir -p a < file", "X=1 mkdir -p a", "cd dir; mkdir -p a", "mkdir -p a; rm a", "./mkdir -p a", "mkdir -p a; touch b", "mkdir -p a & ", "xargs mkdir -p < file"}},
		"git commit -m x": {`{"action":"allow","class":"git","workspace":"` + p.ws + `","program":"/usr/bin/git","args":["commit","-m"],"dir":"."}`,
			[]string{"git commit -m y"}, []string{"git commit", "git commit -m y --amend", "git add .", "git -c a=b commit -m x", "git push"}},
		"git add file":                {`{"action":"allow","class":"git","workspace":"` + p.ws + `","program":"/usr/bin/git","args":["add"],"dir":"."}`, []string{"git add dir"}, []string{"git add -A", "git rm file"}},
		"ls; touch a":                 {`{"action":"allow","class":"command","workspace":"` + p.ws + `","program":"/usr/bin/touch","dir":"."}`, []string{"touch b"}, []string{"touch -r file b", "touch /etc/b"}},
		"./evil.sh go":                {`{"action":"allow","class":"command","workspace":"` + p.ws + `","program":"` + p.ws + `/evil.sh","args":["go"],"dir":".","files":{"evil.sh":"HASH"}}`, []string{"./evil.sh go x"}, []string{"./evil.sh", "./evil.sh stop", "sh evil.sh go"}},
		"mkdir a; touch b":            {want: digest, never: []string{"mkdir a", "touch b", "mkdir a; touch b; ls"}},
		"rm file":                     {want: digest, never: []string{"rm dir/file", "rm -r file"}},
		"curl https://x":              {want: digest, never: []string{"curl https://y"}},
		"touch /etc/x":                {want: digest, never: []string{"touch /etc/y"}},
		"cp a ../b":                   {want: digest},
		"touch $X":                    {want: digest},
		"X=1 mkdir a":                 {want: digest, never: []string{"X=2 mkdir a"}},
		"mkdir a > b":                 {want: digest},
		"make test":                   {want: digest, never: []string{"make", "make test x"}},
		"npm test":                    {want: digest},
		"npx x":                       {want: digest},
		"go run .":                    {want: digest},
		"go test ./...":               {want: digest, never: []string{"go test -exec x ./..."}},
		"sudo ls":                     {want: digest},
		"env mkdir a":                 {want: digest},
		"xargs mkdir < file":          {want: digest},
		"find . -exec mkdir a":        {want: digest},
		"eval $X":                     {want: digest},
		"cd dir; perl ../evil.sh; cd": {want: "none"},
		"cd dir && perl ../evil.sh":   {want: digest},
		"perl5.36 evil.sh":            {want: digest},
		"perl --x=evil.sh":            {want: digest},
		"printf -v X a":               {want: digest},
		"pretty evil.sh":              {want: `{"action":"allow","class":"command","workspace":"` + p.ws + `","program":"/usr/bin/pretty","args":["evil.sh"],"dir":".","files":{"evil.sh":"HASH"}}`},
		"f() { ls; }; f":              {want: digest},
		"git -c a=b status":           {want: digest},
		"git push origin main":        {want: digest},
		"perl evil.sh dir/file":       {want: digest, never: []string{"perl evil.sh"}},
	} {
		t.Run(text, func(t *testing.T) {
			p.write("evil.sh", "original", 0o755)
			v := p.judge(Powers{}, run(text, ""), "")
			if c.want == "none" && v.Action == Ask && v.Offer == nil {
				return
			}
			if v.Action != Ask || v.Offer == nil {
				t.Fatalf("got %+v", v)
			}
			got := strings.Replace(v.Offer.String(), p.facts().Hash(p.ws+"/evil.sh"), "HASH", 1)
			if c.want == digest && (v.Offer.Digest == "" || v.Offer.Program != "") || c.want != digest && got != c.want {
				t.Errorf("offers %s", got)
			}
			with := Powers{Rules: []Rule{*v.Offer}}
			for _, same := range append(c.also, text) {
				if v := p.judge(with, run(same, ""), ""); v.Action != Allow || v.Confine == session.ConfinedReading {
					t.Errorf("with the rule, %s: got %+v", same, v)
				}
			}
			for _, other := range c.never {
				if v := p.judge(with, run(other, ""), ""); v.Action != Ask {
					t.Errorf("with the rule, %s: got %+v", other, v)
				}
			}
			if v := other.judge(with, run(text, ""), ""); v.Action != Ask {
				t.Errorf("with the rule, in another workspace: got %+v", v)
			}
			r := run(text, "")
			r.Dir = "dir"
			if v := p.judge(with, r, ""); v.Action != Ask {
				t.Errorf("with the rule, in another directory: got %+v", v)
			}
			p.write("evil.sh", "changed", 0o755)
			v = p.judge(with, run(text, ""), "")
			if bound := len(only(with).Files) > 0 && strings.Contains(text, "evil"); bound != (v.Action == Ask) {
				t.Errorf("with another file: got %+v", v)
			}
			if v := p.judge(with, run(text, ""), "files"); v.Action != Allow {
				t.Errorf("with another file, without the guard: got %+v", v)
			}
		})
	}
}

func only(p Powers) Rule { return p.Rules[0] }

// A program of the workspace that cannot be bound is offered no rule.
func TestNoOffer(t *testing.T) {
	p := newPlace(t)
	for _, text := range []string{"./absent", "cd dir; ./ls", "dir/absent x", "timeout 5 ./absent"} {
		if v := p.judge(Powers{}, run(text, ""), ""); v.Action != Ask || v.Offer != nil {
			t.Errorf("%s: got %+v", text, v)
		}
	}
	// a person wants to be asked
	if v := p.judge(Powers{Rules: []Rule{{Action: Ask, Program: "/usr/bin/mkdir"}}}, run("mkdir a", ""), ""); v.Action != Ask || v.Offer != nil {
		t.Errorf("with a rule that asks: got %+v", v)
	}
	// a link that leads to another program later
	link := filepath.Join(p.ws, "dir", "tool")
	if err := os.Symlink("/usr/bin/mkdir", link); err != nil {
		t.Fatal(err)
	}
	if v := p.judge(Powers{}, run("dir/tool a", ""), ""); v.Offer == nil || v.Offer.Digest == "" {
		t.Errorf("by a link: got %+v", v)
	}
}

// A program of the workspace that PATH finds is bound, also by a rule for the whole.
func TestOfferBinds(t *testing.T) {
	p := newPlace(t)
	p.path = append([]string{filepath.Join(p.ws, "bin")}, p.path...)
	p.write("bin/tool", "original", 0o755)
	for _, text := range []string{"tool", "tool > out", "tool; mkdir a"} {
		p.write("bin/tool", "original", 0o755)
		v := p.judge(Powers{}, run(text, ""), "")
		if v.Offer == nil || v.Offer.Files["bin/tool"] == "" {
			t.Fatalf("%s: got %+v", text, v)
		}
		with := Powers{Rules: []Rule{*v.Offer}}
		if v := p.judge(with, run(text, ""), ""); v.Action != Allow {
			t.Errorf("%s: got %+v", text, v)
		}
		p.write("bin/tool", "changed", 0o755)
		if v := p.judge(with, run(text, ""), ""); v.Action != Ask {
			t.Errorf("%s, changed: got %+v", text, v)
		}
	}
}

// A sentence for a person has one line and nothing that a terminal executes.
func TestVisible(t *testing.T) {
	p := newPlace(t)
	for _, r := range []*session.Run{{Argv: []string{"rm\n\x1b[2J"}}, {Argv: []string{"touch", "\u202e"}}, {Shell: "ls > 'a\nb\x1b'"}} {
		if v := p.judge(Powers{}, r, ""); hidden(v.Reason) != "" || strings.Contains(v.Reason, "\n") {
			t.Errorf("%q: got %q", r.Command(), v.Reason)
		}
	}
	if s := (Rule{Action: Allow, Program: "/a", Args: []string{"\x1b", "\n"}}).Sentence(); hidden(s) != "" || strings.Contains(s, "\n") {
		t.Errorf("Sentence: got %q", s)
	}
}

// The digest covers everything of a command.
func TestDigest(t *testing.T) {
	p := newPlace(t)
	r := session.Run{Shell: "make"}
	rule := p.judge(Powers{}, &r, "").Offer
	for name, other := range map[string]session.Run{
		"text": {Shell: "make all"}, "argv": {Argv: []string{"make"}}, "shell": {Shell: "make", With: []string{"bash", "-c"}}, "dir": {Shell: "make", Dir: "dir"},
		"env": {Shell: "make", Env: map[string]string{"A": "1"}}, "timeout": {Shell: "make", Timeout: 1}, "tty": {Shell: "make", TTY: true}, "sandbox": {Shell: "make", Sandbox: session.Unconfined},
	} {
		if v := p.judge(Powers{Rules: []Rule{*rule}}, &other, ""); v.Action != Ask {
			t.Errorf("%s: got %+v", name, v)
		}
	}
	if v := p.judge(Powers{Rules: []Rule{*rule}}, &r, ""); v.Action != Allow {
		t.Errorf("the same: got %+v", v)
	}
	// a check is a command too
	if v := p.judge(Powers{}, &session.Run{Shell: "ls", Check: "rm file"}, ""); v.Action != Ask || v.Class != Delete {
		t.Errorf("with a check: got %+v", v)
	}
	if v := p.judge(Powers{}, &session.Run{Shell: "ls", Check: "test -f file"}, ""); !reads(v) {
		t.Errorf("with a check that reads: got %+v", v)
	}
}
