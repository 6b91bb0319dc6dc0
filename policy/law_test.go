package policy

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/acode-dev/acode/session"
)

// Pieces of which texts are made. Each list has harmless pieces and harmful ones.
var (
	programs = strings.Fields(`ls cat grep head tail wc sort uniq find sed printf test echo cut tr tac rev nl cmp diff file stat git git git jq sha256sum basename [ xargs timeout
		true cd set eval command rm touch tee ./ls bin/cat sh bash awk perl env exec mv cp "r"m c\at $(echo rm) $X`)
	arguments = strings.Fields(`file file dir dir/file new ./new -n -o -r -u -l -c -i -a -v -p -w -k1 -ofile -onew -uonew -k -- -t -z --output=new --output new --outp=new -name -type f
		-delete -exec rm {} ; -fprint -fls -print -n1 1p w,new 'wnew' '1,$p' '1e' 1d 's/a/b/w' -i.bak -s -f -e a b * *file f* dir/* {new,-o} [f]ile ~ $X "$X" $(ls) $(rm) "$(touch
		status log diff show branch tag stash grep add commit checkout reset clean -fdx init HEAD HEAD:file --stat --ext-diff -O./ls -Onew -c alias.x=!rm -d -D -m list 5 -s9 -I{} -0 ./ls
		rm file ' " \; '%n' PATH ./bin x=1 -- - -1 -C -b -q ]`)
	joins     = []string{"; ", " && ", " || ", " | ", "\n", " & ", " |& "}
	redirects = []string{"", "", "", "", "", "", " > new", " >> file", " 2>&1", " 2>/dev/null", " < file", " >&2", " &> new", " >| file", " <> new2", " <<E\n$(rm file)\nE\n", " >&new", " > /dev/null"}
	before    = []string{"", "", "", "", "", "", "PATH=./bin ", "X=rm ", "! ", "time ", "exec ", "LC_ALL=C "}
	around    = []string{"@", "@", "@", "@", "(@)", "{ @; }", "$(@)", "echo `@`", "echo $(@)", "if @; then @; fi", "for f in file -o; do @ $f; done", "while @; do break; done", "cat <(@)",
		"sh -c '@'", "bash -c \"@\"", "eval '@'", "f() { @; }; f", "echo \"$(@)\"", "case x in x) @;; esac", "echo ${X:-$(@)}", "timeout 5 @", "ls | xargs @", "((@))", "[[ @ ]]", "! @", "@ file", "$((@))"}
)

// tokens are pieces of texts that a shell reads in ways of its own.
var tokens = strings.Split(`echo |cat |rm file|rm file|;| ; |'|'|"|"|\|$|(|)|((|))|{ | }|; }|$(|${|}|x|#| # |<<E|<<'E'|E|E |[|]|[ | ]|$[|$((|'\''|$'|$"|&&|!| ! |if |; then |; fi|`+
	`for a in |; do |; done|while |<|<(|>(|>&|2>&1|&>|case | in | esac|;;|sh -c |bash -c |eval |*|?|~|=|a=| |test |-v |printf |%s|-n |xargs |command -v |cd |true|$x|%n`, "|")

// jumble makes a text of tokens, lines and pipes that seldom has a meaning.
func jumble(t *rapid.T) string {
	all := append([]string{"|", "||", "\n", "\n", "\\\n", "\nE\n", "`", "\t"}, tokens...)
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(all), 2, 16).Draw(t, "tokens"), "") + rapid.SampledFrom([]string{"", "rm file", ";rm file", "\nrm file"}).Draw(t, "end")
}

func sentence(t *rapid.T) string {
	pick := func(list []string) string { return rapid.SampledFrom(list).Draw(t, "piece") }
	one := func() string {
		text := pick(before) + pick(programs)
		for range rapid.IntRange(0, 4).Draw(t, "arguments") {
			text += " " + pick(arguments)
		}
		return text + pick(redirects)
	}
	text := one()
	for range rapid.IntRange(0, 2).Draw(t, "joins") {
		text += pick(joins) + one()
	}
	for range rapid.IntRange(0, 2).Draw(t, "around") {
		text = strings.ReplaceAll(pick(around), "@", text)
	}
	return text
}

// If Judge says that a command only reads, then it changes nothing, even without a
// sandbox, whichever shell executes it.
func TestReadingChangesNothing(t *testing.T) {
	p := newPlace(t)
	// the files at the start, to put back
	first := filepath.Join(filepath.Dir(p.ws), "first")
	if err := os.CopyFS(first, os.DirFS(p.ws)); err != nil {
		t.Fatal(err)
	}
	want, done, judged := p.state(), 0, 0
	rapid.Check(t, func(r *rapid.T) {
		text := jumble(r)
		if rapid.Bool().Draw(r, "sentence") {
			text = sentence(r)
			judged++
		}
		for _, sh := range []string{"sh", "bash"} {
			work := run(text, sh)
			if !reads(p.judge(Powers{}, work, "")) {
				continue
			}
			done++
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
			cmd := exec.CommandContext(ctx, work.Command()[0], work.Command()[1:]...)
			plain := p.command(work.Command())
			cmd.Dir, cmd.Env = plain.Dir, plain.Env
			// only the files count
			_ = cmd.Run()
			stop()
			if got := p.state(); got != want {
				_ = os.RemoveAll(p.ws)
				if err := os.CopyFS(p.ws, os.DirFS(first)); err != nil {
					t.Fatal(err)
				}
				want = p.state()
				r.Errorf("%s, with %s: changed the workspace", text, sh)
			}
		}
	})
	t.Logf("%d texts, %d executed", judged, done)
	if done < judged/20 {
		t.Errorf("%d of %d texts were executed", done, judged)
	}
}

// Judge always answers, and never with less than one reason.
func FuzzJudge(f *testing.F) {
	for _, text := range []string{"ls", "cat <<E\n$(rm x)\nE", "eval \"a $(b)\"", "sh -c 'sh -c \"ls\"'", "for x in a; do ls \"$x\"; done", "{ git -C . log; } 2>&1", "xargs -n1 timeout 5 rm"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		facts := Facts{Workspace: "/ws", Program: func(name, _ string) string { return "/usr/bin/" + filepath.Base(name) }, Hash: func(string) string { return "" }}
		step := session.Step{Kind: session.KindRun, Run: &session.Run{Shell: text}}
		v := Powers{}.Judge(step, facts)
		if v.Reason == "" || v.Confine == "" || (v.Action == Allow) != reads(v) {
			t.Errorf("%q: got %+v", text, v)
		}
		if v.Offer != nil {
			if _, err := ParseRule([]byte(v.Offer.String())); err != nil {
				t.Errorf("%q: offers %s: %v", text, v.Offer, err)
			}
		}
	})
}
