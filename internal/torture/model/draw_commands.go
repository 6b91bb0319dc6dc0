package model

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// visible returns the captures that the next step sees: those of its task and of the
// tasks that its own depends on. Of several with one name it returns the latest.
func (d *draw) visible() map[string]string {
	values := map[string]string{}
	for _, c := range d.captures {
		if c.task == d.at || d.above[d.at][c.task] {
			values[c.name] = c.value
		}
	}
	return values
}

// sign draws a command that only signs the ledger, in any form.
func (d *draw) sign(id string) (Step, bool) {
	s := Step{Signs: true}
	name := d.Pick("RELEASE_NAME", "OTHER")
	value, seen := d.visible()[name]
	written := ""
	if fits := len(value) < 100 && !strings.Contains(value, "\n"); fits && d.One(2) {
		written = " " + "<$" + name + ">"
		s.Extra = " <" + value + ">"
		if !seen {
			s.Extra = " <>"
		}
		// The step's own value takes precedence.
		if d.One(4) {
			s.yaml = append(s.yaml, "env: {"+name+`: "own $HOME"}`)
			s.Extra = " <own $HOME>"
		}
	} else if d.One(3) {
		s.yaml = append(s.yaml, `env: {EXTRA: " 'by' \"env\""}`)
		s.Extra = ` 'by' "env"`
	}
	script := d.hearing() + d.nap() + signature(written) + d.rest()
	if s.Repaired = d.One(8) && (d.plan.Policy == "" || d.plan.Policy == "pause"); s.Repaired {
		script = repair + script
	}
	run := quote(script)
	if d.One(3) {
		run = "[/bin/sh, -c, " + run + "]"
	}
	s.yaml = append(s.yaml, append(d.options(id), d.policy()...)...)
	s.Volatile = slices.Contains(s.yaml, unsynced)
	s.yaml = append(s.yaml, "run: "+run)
	return s, true
}

// nap returns shell text before the effect of a command: a sleep, or "".
func (d *draw) nap() string {
	if d.beside && d.One(2) {
		return "sleep 0.0" + d.Pick("2", "5", "9") + "; "
	}
	if !d.naps || !d.One(2) {
		return ""
	}
	return "sleep 0." + d.Pick("1", "2", "3", "8") + "; "
}

// rest returns shell text after the effect of a command.
func (d *draw) rest() string {
	if pause := d.nap(); pause != "" {
		return "; " + strings.TrimSuffix(pause, "; ")
	}
	return ""
}

// atOnce returns shell text before a command changes files. It ignores the signals of
// people, because the model cannot follow a command that ends in between.
func (d *draw) atOnce() string {
	if !d.naps {
		return ""
	}
	return deaf + d.nap()
}

// deaf is shell text that makes a command and its children ignore the signals to end.
const deaf = "trap '' INT TERM HUP; "

// hearing returns deaf in some cases, so that the command lives until it is killed.
func (d *draw) hearing() string {
	if !d.naps || !d.One(3) {
		return ""
	}
	return deaf
}

// policy draws the key that decides about an unknown outcome of a slow command.
func (d *draw) policy() []string {
	if !d.naps || !d.One(5) {
		return nil
	}
	return []string{"on_interrupt: " + d.Pick("rerun", "done")}
}

// repair is shell text that fails until a person has repaired the cause.
const repair = `test -e "${` + LedgerVariable + `}` + RepairedSuffix + `" || exit 3; `

// unsynced is the key of a command whose effect a power cut may remove.
const unsynced = "durable: false"

// options draws keys that go with any command.
func (d *draw) options(id string) []string {
	var keys []string
	if d.One(3) {
		keys = append(keys, "durable: "+d.Pick("true", "false"))
	}
	if d.One(3) {
		keys = append(keys, checkOf(d.plan.tasks[d.at].id, id))
	}
	if d.One(4) {
		keys = append(keys, "timeout: 10m")
	}
	if d.beside && d.One(6) {
		keys = append(keys, "exclusive: true")
	}
	return keys
}

// capture draws a command whose output later steps see.
func (d *draw) capture(id string) (Step, bool) {
	c := captured{d.at, d.Pick("RELEASE_NAME", "OTHER"), d.Pick("release-of-the-quokka", "", "two\nlines", "ünïcödé ${OTHER} $${x}",
		"password=correct-horse-battery", strings.Repeat("0123456789abcdef", 3000))}
	first, then := " \n"+c.value+"\t\n", ""
	// It prints in pieces, which a kill may tear, with the effect between them.
	if d.naps {
		cut := d.IntN(len(first))
		first, then = first[:cut], "; "+d.nap()+"printf "+octal(first[cut:])
	}
	s := Step{Signs: true, Captures: true, Value: c.value, yaml: append(append(d.options(id), d.policy()...),
		"run: "+quote(d.hearing()+"printf "+octal(first)+"; "+d.nap()+signature("")+then+d.rest()), "capture: "+c.name)}
	s.Volatile = slices.Contains(s.yaml, unsynced)
	if !d.dead[d.at] {
		d.captures = append(d.captures, c)
	}
	return s, true
}

// idle draws a command that may run twice and declares this.
func (d *draw) idle(string) (Step, bool) {
	return Step{yaml: []string{"run: " + d.Pick("date", "[echo, hello]", `"seq 20000; echo end >&2"`), "on_interrupt: " + d.Pick("rerun", "done")}}, true
}

// workOptions draws keys of a command that changes files. Later steps depend on these
// files, so a power cut must not remove them. A check finds the command's line when
// everything before it is durable; the returned text ensures this. Without the line the
// check cannot tell, because half of the changes may have happened.
func (d *draw) workOptions(id string) (keys []string, before string) {
	task := d.plan.tasks[d.at].id
	for _, key := range d.options(id) {
		switch key {
		case unsynced:
			continue
		case checkOf(task, id):
			key, before = "check: "+quote(asked(task, id)+" || exit 2"), "sync -f . && "
		}
		keys = append(keys, key)
	}
	return keys, before
}

// modify draws a command that changes files before it signs.
func (d *draw) modify(id string) (Step, bool) {
	keys, checked := d.workOptions(id)
	s := Step{Signs: true, yaml: keys}
	up := "./"
	if dirs := slices.DeleteFunc(d.now.folders(), func(dir string) bool { return !strings.HasPrefix(dir, d.own()) }); len(dirs) > 0 && d.One(3) {
		dir := d.Pick(dirs...)
		up = strings.Repeat("../", 1+strings.Count(dir, "/"))
		s.yaml = append(s.yaml, "dir: "+quote(dir))
	}
	words := []string{d.atOnce() + "umask 022"}
	for range 1 + d.IntN(2) {
		c, text, ok := d.deed(s.after(d.now), up)
		if !ok {
			return s, false
		}
		s.Does = append(s.Does, c)
		words = append(words, text)
	}
	words = append(words, checked+signature(""))
	s.yaml = append(s.yaml, "run: "+quote(strings.Join(words, " && ")))
	return s, true
}

// deed draws a change of t by a shell.
func (d *draw) deed(t Tree, up string) (Change, string, bool) {
	there, ok := d.somePath(t)
	anywhere := d.anyPath()
	if old, held := t[anywhere]; held && old.Mode&0o200 == 0 || !ok {
		return Change{}, "", false
	}
	from, to := word(up+there), word(up+anywhere)
	make := "mkdir -p " + word(up+path.Dir(anywhere)) + " && "
	switch d.IntN(6) {
	case 0:
		return Change{op: "delete", path: there}, "rm " + from, true
	case 1:
		return Change{op: "move", from: there, to: anywhere}, make + "mv -f " + from + " " + to, there != anywhere
	case 2:
		mode := d.mode()
		return Change{op: "chmod", path: there, mode: mode}, fmt.Sprintf("chmod %04o %s", mode, from), true
	case 3:
		data := "added\n"
		return Change{op: "append", path: there, content: data}, "printf " + octal(data) + " >> " + from, t[there].Mode&0o200 != 0
	case 4:
		if value, ok := d.visible()["OTHER"]; ok {
			return Change{op: "write", path: anywhere, content: value}, make + `printf %s "$OTHER" > ` + to, true
		}
	}
	data := d.Pick("", "made by a command\n", "\x00\xff\xfe\r\n%d 'quoted'", strings.Repeat("quokka\n", 9000))
	if len(data) > largeBytes/2 {
		return Change{op: "write", path: anywhere, content: data}, make + "yes quokka | head -n 9000 > " + to, true
	}
	return Change{op: "write", path: anywhere, content: data}, make + "printf " + octal(data) + " > " + to, true
}

// word writes a text as one word of the shell.
func word(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// octal encodes bytes for printf; printable ASCII stays as it is.
func octal(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~' || c == '\'' || c == '\\' || c == '%' || c == '-':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}
