package arch_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/arch"
)

// planted is a source and the breach that a rule must find in it.
type planted struct {
	sources map[string]string
	// want is part of the message of the only breach. Empty means that the rule must find
	// none.
	want string
}

func one(path, source string) map[string]string { return map[string]string{path: source} }

// tryRule applies a rule to each planted source. The rule must find the breach once and
// name its place.
func tryRule(t *testing.T, rule func(*arch.Tree) []arch.Breach, cases map[string]planted) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tree, err := arch.Parse(c.sources)
			if err != nil {
				t.Fatal(err)
			}
			got := rule(tree)
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("breaches: got %v, want none", got)
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0].String(), c.want) || got[0].Place == ""):
				t.Errorf("breaches: got %v, want one with %q", got, c.want)
			}
		})
	}
}

const house = `"github.com/acode-dev/acode/`

func TestLayoutRule(t *testing.T) {
	rule := func(tree *arch.Tree) []arch.Breach { return arch.Layout(tree, arch.Packages()) }
	tryRule(t, rule, map[string]planted{
		"root":       {one("main.go", "package main"), "main.go:1:1: the root holds no Go file"},
		"root_test":  {one("x_test.go", "package main"), "the root holds no Go file"},
		"unknown":    {map[string]string{"util/a.go": "package util", "util/b.go": "package util"}, "util: is not in the table"},
		"unknown_in": {one("session/store/a.go", "package store"), "session/store: is not in the table"},
		"known":      {one("provider/command/a.go", "package command"), ""},
	})
}

func TestIdleRule(t *testing.T) {
	packages := map[string][]string{"session": {}, "lock": {"session", "redact"}, "cli": {}}
	modules := map[string][]string{"gorm.io/gorm": {"lock"}}
	rule := func(tree *arch.Tree) []arch.Breach { return arch.Idle(tree, packages, modules) }
	source := func(lock string) map[string]string {
		return map[string]string{"session/a.go": "package session", "cli/a.go": "package cli", "lock/a.go": "package lock\nimport (\n" + lock + "\n)"}
	}
	without := func(sources map[string]string, path string) map[string]string {
		delete(sources, path)
		return sources
	}
	both := source(house + "session\"\n\"gorm.io/gorm/clause\"")
	inTest := source(house + "session\"")
	inTest["lock/a_test.go"] = "package lock\nimport \"gorm.io/gorm\""
	tryRule(t, rule, map[string]planted{
		"needed":  {both, ""},
		"import":  {source(`"gorm.io/gorm"`), "lock: may import session and does not"},
		"module":  {source(house + `session"`), "lock: may import gorm.io/gorm and does not"},
		"in_test": {inTest, "lock: may import gorm.io/gorm and does not"},
		"folder":  {without(source(house+"session\"\n\"gorm.io/gorm\""), "cli/a.go"), "cli: is in the table of packages and holds no Go file"},
	})
}

func TestImportsRule(t *testing.T) {
	rule := func(tree *arch.Tree) []arch.Breach { return arch.Imports(tree, arch.Packages(), arch.Modules()) }
	source := func(imported string) string { return "package x\nimport _ " + imported }
	tryRule(t, rule, map[string]planted{
		"leaf":               {one("session/a.go", source(house+`redact"`)), "session is a leaf: it may not import redact"},
		"use_case_adapter":   {one("engine/a.go", source(house+`local"`)), "engine may import session, redact of ours, not local"},
		"use_case_use_case":  {one("resume/a.go", source(house+`engine"`)), "not engine"},
		"adapter_adapter":    {one("lock/a.go", source(house+`workspace"`)), "not workspace"},
		"anybody_cmd":        {one("plan/a.go", source(house+`cmd/acode"`)), "nothing imports cmd/acode"},
		"cli_cmd":            {one("cli/a.go", source(house+`cmd/acode"`)), "nothing imports cmd/acode"},
		"cli_scaffolding":    {one("cli/a.go", source(house+`internal/crash"`)), "internal/crash is scaffolding"},
		"engine_scaffolding": {one("engine/a.go", source(house+`internal/history"`)), "internal/history is scaffolding"},
		"other_owner":        {one("engine/a.go", source(`"modernc.org/sqlite"`)), "modernc.org/sqlite belongs to local: engine may not import it"},
		"owner_of_subfolder": {one("local/a.go", source(`"github.com/klauspost/compress/gzip"`)), "has no owner"},
		"no_owner":           {one("local/a.go", source(`"gorm.io/gorm"`)), "gorm.io/gorm has no owner"},
		"session_third":      {one("session/a.go", source(`"github.com/klauspost/compress/zstd"`)), "belongs to local"},
		"template":           {one("terminal/a.go", source(`"text/template"`)), "text/template keeps the linker"},
		"renamed":            {one("engine/a.go", "package x\nimport s "+house+`local"`), "engine/a.go:2:8"},
		"linux_only":         {one("lock/a_linux.go", "//go:build linux\n\npackage x\nimport _ "+house+`local"`), "not local"},
		"cmd_program":        {one("cmd/acode/a.go", source(house+`cli"`)), ""},
		"app_wires":          {one("app/a.go", source(house+`provider/command"`)), ""},
		"door_use_case":      {one("cli/a.go", source(house+`resume"`)), "not resume"},
		"door_adapter":       {one("cli/a.go", source(house+`local"`)), "not local"},
		"app_door":           {one("app/a.go", source(house+`cli"`)), "not cli"},
		"app_terminal":       {one("app/a.go", source(house+`terminal"`)), "not terminal"},
		"app_plan":           {one("app/a.go", source(house+`plan"`)), "not plan"},
		"app_cobra":          {one("app/a.go", source(`"github.com/spf13/cobra"`)), "belongs to cli: app may not import it"},
		"app_driver":         {one("app/a.go", source(house+`remote"`)), "not remote"},
		"app_metrics":        {one("app/a.go", source(house+`outbox"`)), "not outbox"},
		"owner":              {one("local/a.go", source(`"modernc.org/sqlite/lib"`)), ""},
		"owner_below":        {one("provider/command/a.go", source(`"golang.org/x/sys/unix"`)), ""},
		"test":               {one("engine/a_test.go", source(house+`internal/history"`)), ""},
		"standard":           {one("session/a.go", source(`"encoding/json"`)), ""},
	})
}

// Only app and the commands of acode-sync may import both use cases and adapters.
func TestOnlyAppSeesBothSides(t *testing.T) {
	sides := []string{"resume", "engine", "outbox", "local", "remote", "lock", "workspace", "provider/command"}
	for dir, allowed := range arch.Packages() {
		if dir == "app" || dir == "cli/sync" || strings.HasPrefix(dir, "internal/") {
			continue
		}
		for _, ours := range allowed {
			if slices.Contains(sides, ours) {
				t.Errorf("%s may import %s: let app do this work", dir, ours)
			}
		}
	}
}

func TestClockRule(t *testing.T) {
	tryRule(t, arch.Clock, map[string]planted{
		"now":       {one("lock/a.go", "package x\nimport \"time\"\nvar T = time.Now()"), "lock/a.go:3:9: time.Now is for main functions and doors only"},
		"now_value": {one("lock/a.go", "package x\nimport \"time\"\nfunc f() { g(time.Now) }"), "time.Now"},
		"since":     {one("lock/a.go", "package x\nimport \"time\"\nfunc f() { time.Since(t) }"), "time.Since"},
		"sleep":     {one("internal/crash/a.go", "package x\nimport \"time\"\nfunc f() { time.Sleep(1) }"), "time.Sleep"},
		"until":     {one("lock/a.go", "package x\nimport \"time\"\nfunc f() { time.Until(t) }"), "time.Until"},
		"renamed":   {one("lock/a.go", "package x\nimport clock \"time\"\nfunc f() { clock.Now() }"), "time.Now"},
		"cmd":       {one("cmd/acode/a.go", "package x\nimport \"time\"\nvar T = time.Now()"), ""},
		"main":      {one("internal/x/a.go", "package main\nimport \"time\"\nfunc main() { f(time.Now) }"), ""},
		"beside":    {one("internal/x/a.go", "package main\nimport \"time\"\nfunc f() { time.Now() }\nfunc main() {}"), "time.Now"},
		"test":      {one("lock/a_test.go", "package x\nimport \"time\"\nvar T = time.Now()"), ""},
		"timer":     {one("lock/a.go", "package x\nimport \"time\"\nvar T = time.NewTimer(time.Second)"), ""},
		"a_field":   {one("lock/a.go", "package x\nimport \"time\"\ntype c struct{ Now func() time.Time }\nfunc f(time c) { time.Now() }"), ""},
		"other":     {one("lock/a.go", "package x\nvar T = time.Now()"), ""},
	})
}

func TestInitsRule(t *testing.T) {
	tryRule(t, arch.Inits, map[string]planted{
		"init":   {one("lock/a.go", "package x\nfunc init() {}"), "lock/a.go:2:1: init runs"},
		"cmd":    {one("cmd/acode/a.go", "package x\nfunc init() {}"), "init runs"},
		"method": {one("lock/a.go", "package x\nfunc (l L) init() {}"), ""},
		"test":   {one("lock/a_test.go", "package x\nfunc init() {}"), ""},
	})
}

func TestVariablesRule(t *testing.T) {
	two := func(a, b string) map[string]string {
		return map[string]string{"lock/a.go": "package x\n" + a, "lock/b.go": "package x\n" + b}
	}
	tryRule(t, arch.Variables, map[string]planted{
		"no_value":          {two("var cache map[string]int", ""), "lock/a.go:2:5: package variable cache has no value"},
		"mutex":             {two("import \"sync\"\nvar mu = sync.Mutex{}", ""), "mu is of a type that exists to change"},
		"once":              {two("import \"sync\"\nvar mu = &sync.Once{}", ""), "exists to change"},
		"atomic":            {two("import \"sync/atomic\"\nvar n = new(atomic.Int64)", ""), "exists to change"},
		"channel":           {two("var c = make(chan int)", ""), "exists to change"},
		"assigned":          {two("var n = 1\nfunc f() { n = 2 }", ""), "package variable n is assigned here"},
		"assigned_over":     {two("var n = 1", "func f() { n = 2 }"), "lock/b.go:2:12: package variable n"},
		"added":             {two("var n = 1\nfunc f() { n += 2 }", ""), "n is assigned"},
		"incremented":       {two("var n = 1\nfunc f() { n++ }", ""), "n is assigned"},
		"ranged":            {two("var n = 1\nfunc f() { for n = range 3 {} }", ""), "n is assigned"},
		"ranged_value":      {two("var n = 1\nfunc f() { for _, n = range x {} }", ""), "n is assigned"},
		"element":           {two("var m = map[string]int{}\nfunc f() { m[\"a\"] = 2 }", ""), "m is assigned"},
		"element_of_slice":  {two("var m = []int{1}\nfunc f() { m[0:1][0] = 2 }", ""), "m is assigned"},
		"field":             {two("var m = T{}\nfunc f() { (m).f.g = 2 }", ""), "m is assigned"},
		"pointer":           {two("var m = new(int)\nfunc f() { *m = 2 }", ""), "m is assigned"},
		"deleted":           {two("var m = map[string]int{}\nfunc f() { delete(m, \"a\") }", ""), "m is changed"},
		"sorted":            {two("var m = []int{2, 1}\nfunc f() { slices.Sort(m) }", ""), "m is changed"},
		"handed_out":        {two("var m = 1\nfunc f() { flag.IntVar(&m, \"m\") }", ""), "m is handed out by address"},
		"handed_in":         {two("var m = class{}\nvar r = token(&m)", ""), ""},
		"other_package":     {two("import \"os\"\nfunc f() { os.Args = nil }", ""), "a variable of package os is assigned"},
		"in_cmd":            {one("cmd/acode/a.go", "package x\nvar n = 1\nfunc f() { n = 2 }"), "n is assigned"},
		"error":             {two("var errX = errors.New(\"x\")", ""), ""},
		"pattern":           {two("var p = regexp.MustCompile(`x`)", ""), ""},
		"table":             {two("var m = map[string]int{\"a\": 1}\nfunc f() int { return m[\"a\"] }", ""), ""},
		"late_table":        {two("import \"sync\"\nvar m = sync.OnceValue(build)", ""), ""},
		"function":          {two("import \"sync\"\nvar f = func() { var mu sync.Mutex; mu.Lock() }", ""), ""},
		"assertion":         {two("var _ I = (*T)(nil)\nvar _ = 1", ""), ""},
		"embedded":          {two("//go:embed *.sql\nvar files embed.FS", ""), ""},
		"embedded_in_group": {two("var (\n//go:embed *.sql\nfiles embed.FS\n)", ""), ""},
		"hidden":            {two("var n = 1\nfunc f(n int) { n = 2 }\nfunc g() { n := 1; n++ }", "func h() { var n int; n = 2; _ = n }"), ""},
		"method_of_other":   {two("var n = 1\nfunc f() { g().n = 2; h().n++ }", ""), ""},
		"local":             {two("func f() { var n int; n = 2 }", ""), ""},
		"test":              {one("lock/a_test.go", "package x\nvar n int"), ""},
	})
}

func TestNamesRule(t *testing.T) {
	source := func(s string) map[string]string {
		return one("engine/a.go", "package engine\nimport "+house+"session\"\n"+s)
	}
	tryRule(t, arch.Names, map[string]planted{
		"variable":    {source("func f() { session := 1; _ = session }"), "engine/a.go:3:12: session is named after the package"},
		"declared":    {source("func f() { var session int; _ = session }"), "session is named"},
		"package_var": {source("var session = 1"), "session is named"},
		"parameter":   {source("func f(session int) {}"), "session is named"},
		"result":      {source("func f() (session int) { return }"), "session is named"},
		"receiver":    {source("func (session T) f() {}"), "session is named"},
		"literal":     {source("var f = func(session int) {}"), "session is named"},
		"ranged":      {source("func f() { for session := range 3 { _ = session } }"), "session is named"},
		"renamed":     {one("engine/a.go", "package engine\nimport s "+house+"session\"\nfunc f(s int) {}"), "s is named"},
		"field":       {source("type T struct { session int }"), ""},
		"method":      {source("type T interface { session() int }"), ""},
		"own":         {one("session/a.go", "package session\nfunc f(session int) {}"), ""},
		"not_ours":    {one("engine/a.go", "package engine\nimport \"path\"\nfunc f(path int) {}"), ""},
		"test":        {one("engine/a_test.go", "package engine\nimport "+house+"session\"\nfunc f(session int) {}"), ""},
		"short":       {source("func f(sess session.Session) {}"), ""},
	})
}

func TestDocsRule(t *testing.T) {
	source := func(s string) map[string]string {
		return one("lock/a.go", "// Package lock is documented.\npackage lock\n\n"+s)
	}
	tryRule(t, arch.Docs, map[string]planted{
		"package":           {one("lock/a.go", "package lock"), "lock: the package has no doc comment"},
		"function":          {source("func F() {}"), "lock/a.go:4:6: F is exported and has no doc comment"},
		"method":            {source("type t struct{}\n\n// T is said.\ntype T struct{}\n\nfunc (*T) M() {}"), "M is exported"},
		"generic":           {source("// T is said.\ntype T[A any] struct{}\n\nfunc (*T[A]) M() {}"), "M is exported"},
		"type":              {source("type T struct{}"), "T is exported"},
		"type_in_group":     {source("// Said for the group only.\ntype (\n\tT struct{}\n\tu struct{}\n)"), "T is exported"},
		"constant":          {source("const C = 1"), "C is exported"},
		"variable_in_group": {source("var (\n\tv = 1\n\tV = 2\n)"), "V is exported"},
		"detached":          {source("// F is too far away.\n\nfunc F() {}"), "F is exported"},
		"all_said":          {source("// F is said.\nfunc F() {}\n\n// C and D are said.\nconst (\n\tC = 1\n\tD = 2\n)\n\n// T is said.\ntype T struct{}\n\nvar V = 1 // said too"), ""},
		"unexported":        {source("func f() {}\n\ntype t struct{}\n\nfunc (t) M() {}\n\nconst c = 1"), ""},
		"other_file":        {map[string]string{"lock/a.go": "package lock", "lock/doc.go": "// Package lock is documented.\npackage lock"}, ""},
		"test":              {one("lock/a_test.go", "package lock\nfunc F() {}"), ""},
	})
}

func TestCitedRule(t *testing.T) {
	source := func(comment string) map[string]string {
		return map[string]string{
			"lock/a.go":      "// Package lock promises:\n//\n//\tI1  One.\n//\tI2  Two, see I9.\n//\tI3  Three.\npackage lock\n// I2 is no test.",
			"lock/a_test.go": "package lock_test\n// " + comment + "\nfunc f() {}",
			"plan/a_test.go": "package plan_test\n// I1, I2, I3: elsewhere.\nfunc f() {}",
		}
	}
	tryRule(t, arch.Cited, map[string]planted{
		"each":    {source("I3, I1 and I2: they hold."), ""},
		"range":   {source("What is promised (I1 to I3)."), ""},
		"dash":    {source("I1–I3."), ""},
		"short":   {source("I1–3."), ""},
		"missing": {source("I1, I3: they hold."), "lock/a.go:1:1: no test of lock cites I2"},
		"past":    {source("I1 to I2, HI3."), "cites I3"},
		"none":    {one("lock/a.go", "// Package lock promises I1.\npackage lock"), ""},
		"no_doc":  {one("lock/a.go", "package lock"), ""},
	})
}

func TestLettersRule(t *testing.T) {
	promises := func(lock, plan string) map[string]string {
		return map[string]string{
			"lock/a.go": "// Package lock promises:\n//\n//\t" + lock + "1  One.\n//\t" + lock + "2  Two.\npackage lock",
			"plan/a.go": "// Package plan promises:\n//\n//\t" + plan + "1  One.\npackage plan",
		}
	}
	tryRule(t, arch.Letters, map[string]planted{
		"same":  {promises("K", "K"), "plan/a.go:1:1: K1 of plan has the letter of lock"},
		"other": {promises("K", "P"), ""},
	})
}

func TestTemplateCallsRule(t *testing.T) {
	tryRule(t, arch.TemplateCalls, map[string]planted{
		"usage": {one("cmd/acode/a.go", "package main\nfunc f() { root.SetUsageTemplate(\"\") }"), "cmd/acode/a.go:2:12: SetUsageTemplate links"},
		"func":  {one("cmd/acode/a.go", "package main\nfunc f() { root.SetUsageFunc(nil) }"), ""},
		"test":  {one("cmd/acode/a_test.go", "package main\nfunc f() { root.SetHelpTemplate(\"\") }"), ""},
	})
}

func TestModuleRules(t *testing.T) {
	const fine = "module m\n\ngo 1.26.0\n\nrequire (\n\tmodernc.org/libc v1.2.3 // indirect\n\tmodernc.org/sqlite v1.60.1\n)\n"
	if got := arch.GoMod(fine); len(got) > 0 {
		t.Errorf("GoMod: got %v, want none", got)
	}
	for _, line := range []string{"replace a => b v1", "exclude a v1", "replace (\n\ta => ../b\n)"} {
		if got := arch.GoMod(fine + line); len(got) != 1 {
			t.Errorf("GoMod with %q: got %v, want one breach", line, got)
		}
	}
	if got := arch.Libc(fine, "require modernc.org/libc v1.2.3"); len(got) > 0 {
		t.Errorf("Libc: got %v, want none", got)
	}
	for name, theirs := range map[string]string{"newer": "require modernc.org/libc v1.2.4", "gone": "module x"} {
		if got := arch.Libc(fine, theirs); len(got) != 1 {
			t.Errorf("Libc %s: got %v, want one breach", name, got)
		}
	}
	if got := arch.Libc("module x", "module y"); len(got) != 1 {
		t.Errorf("Libc without any: got %v, want one breach", got)
	}
	imports := map[string][]string{
		"github.com/spf13/cobra": {"text/template"}, "gorm.io/gorm": {"fmt", "text/template"}, "html/template": {"text/template"}, "fmt": {"os"},
	}
	if got := arch.Templates(imports, arch.TemplateUsers()); len(got) != 1 || got[0].Place != "gorm.io/gorm" {
		t.Errorf("Templates: got %v, want gorm.io/gorm", got)
	}
}

// Parse and Load return an error for a source that does not parse and for a missing tree.
func TestLoadErrors(t *testing.T) {
	if _, err := arch.Parse(one("a/a.go", "package")); err == nil {
		t.Errorf("Parse of half a file: got nil, want an error")
	}
	if _, err := arch.Load(t.TempDir() + "/absent"); err == nil {
		t.Errorf("Load of nothing: got nil, want an error")
	}
}

func TestCommandsRule(t *testing.T) {
	allowed := map[string][]string{"lock/a.go": {"acode supervise"}}
	rule := func(tree *arch.Tree) []arch.Breach { return arch.Commands(tree, allowed) }
	source := func(path, text string) map[string]string {
		sources := one("lock/a.go", "package lock\nconst name = `acode supervise`")
		sources[path] = "package x\nfunc f(id string) string { return " + text + " }"
		return sources
	}
	tryRule(t, rule, map[string]planted{
		"command":   {source("engine/a.go", "`look: acode status ` + id"), `engine/a.go:2:35: "acode status" names a command line`},
		"other":     {source("outbox/a.go", "`acode-sync admin migrate`"), `"acode-sync admin"`},
		"option":    {source("app/a.go", "`wait for it with --wait`"), `"--wait"`},
		"argument":  {source("app/a.go", "`--on-changes=` + id"), `"--on-changes"`},
		"directory": {source("app/a.go", "`resume it with -C DIR`"), `"-C"`},
		"exempt":    {source("lock/b.go", "`acode supervise`"), `lock/b.go:2:35: "acode supervise"`},
		"unused":    {one("engine/a.go", "package x"), "lock/a.go: acode supervise is exempt and not used"},
		"words":     {source("engine/a.go", "`acode, resumed -- by a person`"), ""},
		"door":      {source("cli/sync/a.go", "`acode sync now`"), ""},
		"main":      {source("cmd/acode/a.go", "`acode run`"), ""},
		"scaffold":  {source("internal/scene/a.go", "`acode run`"), ""},
		"in_a_test": {source("engine/a_test.go", "`acode run`"), ""},
		"comment":   {source("engine/a.go", "id /* acode run */"), ""},
	})
}
