package shell_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/acode-dev/acode/shell"
)

// Reads returns the names that a text reads before it gives them a value. A name also
// counts if only an execution of the text could tell.
func TestReads(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                {"make all", ""},
		"empty":                  {"", ""},
		"plain":                  {"deploy $TARGET", "TARGET"},
		"braces":                 {"deploy ${TARGET}", "TARGET"},
		"quoted":                 {`deploy "to $TARGET" '$NOT' \$NOT`, "TARGET"},
		"order":                  {"A=1; echo $A $B; B=2; echo $B", "B"},
		"itself":                 {"P=$P:bin; echo $P", "P"},
		"appended":               {"P+=:bin", "P"},
		"for_one_command":        {"A=1 env; echo $A", "A"},
		"before_its_command":     {"A=$B echo $A; B=1", "A B"},
		"default":                {"echo ${A:-$B}", "A B"},
		"default_assigned":       {"echo ${A:=b}; echo $A", "A"},
		"only_default_assigned":  {": ${A:=b} ${B=c}", "A B"},
		"alternative":            {"echo ${A:+yes} ${B?message}", "A B"},
		"default_not_reached":    {"echo ${A:-${B:=1}}; echo $B", "A B"},
		"length":                 {"echo ${#A}", "A"},
		"indirect":               {"echo ${!A}", "A"},
		"by_prefix":              {"echo ${!ACME_*}", ""},
		"trimmed":                {"echo ${A%%$B} ${C/$D/$E}", "A B C D E"},
		"slice":                  {"echo ${A:B:C+1}", "A B C"},
		"element":                {"a=(1 2 $B); echo ${a[I]}", "B I"},
		"element_assigned":       {"a[I]=$B", "B I"},
		"specials":               {`echo $1 $@ $# $? $$ $! $- $_ ${10} "$*"`, ""},
		"arithmetic":             {"echo $((A + B * 2))", "A B"},
		"arithmetic_assigned":    {"echo $((A = 1)) $((A + B))", "B"},
		"arithmetic_added":       {"echo $((A += 1)) $((B++))", "A B"},
		"arithmetic_conditional": {"echo $((A && (B = 1))) $B", "A B"},
		"arithmetic_command":     {"((N > 1)); let M=N+K", "K N"},
		"for":                    {"for f in $LIST; do echo $f; done; echo $f", "LIST f"},
		"for_c":                  {"for ((i = 0; i < N; i++)); do X=1; done; echo $i $X", "N X"},
		"select":                 {"select s in $LIST; do echo $s; done", "LIST"},
		"while":                  {"while [ $A ]; do B=1; done; echo $B", "A B"},
		"while_read":             {"while read -r k v; do echo $k $v; done < $FILE", "FILE"},
		"until":                  {"until [ -e $F ]; do sleep 1; done", "F"},
		"read":                   {"read -r -p Name: A B; echo $A $B $C", "C"},
		"read_array":             {"read -ra WORDS <<< $LINE; echo ${WORDS[0]}", "LINE"},
		"read_option_value":      {"read -d X A; echo $A $X", "X"},
		"if_one_way":             {"if true; then A=1; fi; echo $A", "A"},
		"if_both_ways":           {"if $C; then A=1; else A=2; fi; echo $A", "C"},
		"if_elif":                {"if a; then A=1; elif A=2; then :; else A=3; fi; echo $A", ""},
		"if_elif_one_misses":     {"if a; then A=1; elif b; then :; else A=3; fi; echo $A", "A"},
		"if_condition":           {"if A=$(cat f); then echo $A; fi; echo $A", ""},
		"and":                    {"A=1 && echo $A; test x && B=1; echo $B", "B"},
		"or":                     {"A=$B || A=2; echo $A", "B"},
		"case":                   {"case $A in $B) C=1 ;; *) D=1 ;; esac; echo $C $D", "A B C D"},
		"pipeline":               {"echo x | read A; echo $A", "A"},
		"pipeline_first":         {"A=1 | cat; echo $A", "A"},
		"subshell":               {"(A=1; echo $A); echo $A", "A"},
		"subshell_only":          {"(A=1; echo $A)", ""},
		"block":                  {"{ A=1; }; echo $A", ""},
		"background":             {"{ A=1; } & echo $A", "A"},
		"substitution":           {"X=$(A=1; echo $A $B); echo $X $A", "A B"},
		"backquotes":             {"echo `echo $A`", "A"},
		"process_substitution":   {"diff <(sort $A) >(cat $B)", "A B"},
		"heredoc":                {"cat <<EOF\n$A ${B:-x}\nEOF\n", "A B"},
		"heredoc_quoted":         {"cat <<'EOF'\n$A\nEOF\n", ""},
		"heredoc_after":          {"A=1\ncat <<EOF\n$A\nEOF\n", ""},
		"herestring":             {"cat <<< $A", "A"},
		"redirection":            {"echo x > $OUT 2>> ${LOG}", "LOG OUT"},
		"descriptor":             {"exec {fd}> f; echo >&$fd", ""},
		"export_value":           {"export A=$B; echo $A", "B"},
		"export_name":            {"export A; ./script", "A"},
		"export_later":           {"A=1; export A", ""},
		"readonly":               {"readonly A=1; echo $A", ""},
		"declare":                {"declare -i N=$M; echo $N", "M"},
		"function":               {"A=1; f() { echo $A $B; }; B=1; f", "B"},
		"function_before":        {"f() { echo $A; }; f; A=1", "A"},
		"function_later":         {"g() { f; }; f() { echo $A; }; g", "A"},
		"function_sets":          {"f() { A=1; echo $A; }; f; echo $A", "A"},
		"function_not_called":    {"f() { echo $A; }; trap f EXIT", "A"},
		"function_local":         {"f() { local A=$B; local C; echo $A $C; }; f", "B"},
		"function_recursive":     {"f() { A=1; f; echo $A $B; }; f", "B"},
		"function_in_subshell":   {"f() { A=1; }; (f); echo $A", "A"},
		"test_set":               {"[[ -v A ]]; [ -v B ]; test -v C", "A B C"},
		"test":                   {"[[ $A == $B && -n ${C} ]]", "A B C"},
		"eval":                   {`eval 'echo $A'; A=1; eval 'echo $A'`, "A"},
		"eval_unknown":           {`eval "echo $A"`, "A"},
		"trap":                   {`trap 'rm -f $TMP' EXIT`, "TMP"},
		"nested_shell":           {`sh -c 'echo $A; B=1; echo $B' x`, "A"},
		"nested_set_before":      {`A=1; sh -c 'echo $A'; C=1 bash -ec 'echo $C'`, ""},
		"nested_behind":          {`find . | xargs -n1 env sh -e -c 'echo $A $1' sh`, "A"},
		"nested_bash_options":    {`bash -e -o pipefail -c 'echo $A'`, "A"},
		"nested_script":          {`sh ./deploy -c '$A'`, ""},
		"nested_broken":          {`sh -c 'if'; echo $A`, "A"},
		"printenv":               {"printenv A B", "A B"},
		"envsubst":               {"envsubst '$A ${B}' < in", "A B"},
		"time":                   {"time make $A", "A"},
		"negated":                {"! grep $A f", "A"},
		"comment":                {"echo x # $A", ""},
		"lower_case":             {"echo $target", "target"},
		"several_lines":          {"set -eu\ncd \"$DIR\"\nfor i in 1 2; do\n  N=$i\ndone\necho $N\n", "DIR N"},
		"posix_only":             {"echo $A; f() echo $B; f", "A B"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := shell.Reads(c.text)
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("Reads(%s): got %v, %v, want %q", c.text, got, err, c.want)
			}
		})
	}
}

// A text that cannot be parsed has no names, and an error with the place.
func TestReadsUnreadable(t *testing.T) {
	for text, want := range map[string]string{
		"echo $A; if":                  "line 1, column 10: ",
		"echo $A\n(":                   "line 2, column 1: ",
		"echo \"$A":                    "line 1, column 6: ",
		strings.Repeat("$A ", 100_000): "the text is longer than 128 KiB",
	} {
		got, err := shell.Reads(text)
		if got != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Reads(%.20s): got %v, %v, want an error: %s", text, got, err, want)
		}
		if shell.Check(text) == nil || shell.Pipeline(text) {
			t.Errorf("Check(%.20s): got no error, or a pipeline", text)
		}
	}
}

func TestPipeline(t *testing.T) {
	for text, want := range map[string]bool{
		"a | b": true, "a |& b": true, "x=$(a | b)": true, "if a | b; then c; fi": true, "cat <<EOF\n$(a | b)\nEOF": true,
		"a || b": false, "echo 'a | b'": false, "case $a in b | c) d ;; esac": false, "set -o pipefail; a | b": false, "a > b": false, "": false,
	} {
		if got := shell.Pipeline(text); got != want {
			t.Errorf("Pipeline(%q): got %v, want %v", text, got, want)
		}
	}
}

func TestScript(t *testing.T) {
	for argv, want := range map[string]string{
		"sh -c X":                           "X",
		"/bin/sh -e -c X":                   "X",
		"bash -e -o pipefail -c X name arg": "X",
		"bash -ec X":                        "X",
		"bash -c -e X":                      "X",
		"bash --norc --rcfile f +o x -c X":  "X",
		"sh -c -- X":                        "X",
		"env A=b sh -c X":                   "X",
		"sh script -c X":                    "",
		"sh -- script":                      "",
		"sh":                                "",
		"sh -c":                             "",
		"python3 -c X":                      "",
		"make all":                          "",
	} {
		got, ok := shell.Script(strings.Fields(argv))
		if got != want || ok != (want != "") {
			t.Errorf("Script(%s): got %q, %v, want %q", argv, got, ok, want)
		}
	}
}

// A text of the greatest length costs neither the stack nor much time, however deeply
// it is nested.
func TestReadsBombs(t *testing.T) {
	for _, part := range []string{"$(", "if ", "${a[", "a() {", "f() { f; }; f; ", "A=1;(:);", "f() { A=1; return; };"} {
		text := strings.Repeat(part, shell.MaxBytes/len(part)-2)
		if _, err := shell.Reads("echo $X\n" + text); (err == nil) != strings.HasSuffix(strings.TrimSpace(part), ";") {
			t.Errorf("Reads(%s...): got %v", part, err)
		}
	}
	var calls strings.Builder
	for i := range 1000 {
		calls.WriteString(strings.NewReplacer("A", string(rune('a'+i%26))+strings.Repeat("x", i/26), "B", string(rune('a'+(i+1)%26))+strings.Repeat("x", (i+1)/26)).Replace("A() { B; B; B; echo $A; }; "))
	}
	if _, err := shell.Reads(calls.String() + "a"); err != nil {
		t.Error(err)
	}
}

func FuzzReads(f *testing.F) {
	for _, text := range []string{"echo $A", "f() { local A; f; }; f", "read -a A <<< ${B[1]}", "eval 'sh -c \"$A\"'", "a=(b [c]=d); ((e = f ? g : h))"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names, err := shell.Reads(text)
		if (err != nil) && names != nil || !slices.IsSorted(names) {
			t.Errorf("Reads(%q): got %v, %v", text, names, err)
		}
		shell.Pipeline(text)
	})
}
