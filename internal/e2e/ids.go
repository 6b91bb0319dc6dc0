package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// identify shows what a client says about its conversation to a server of tools, in its
// first life and after a resume, and which calls of one message it makes at once.
func (o options) identify(a agent) error {
	m := &model{script: probe(), prefix: a.prefix, batch: 4}
	s, err := newSite(filepath.Join(o.dir, a.name+"-ids"), o, m)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var lives [2]life
	for i := range lives {
		log := filepath.Join(s.dir, fmt.Sprintf("spy-%d", i))
		s.spy = []string{self, spySwitch, log, "0", "0"}
		cmd, err := a.start(s)
		if i == 1 {
			m.script = append(m.script, run("after-the-resume", "true"))
			cmd, err = a.resume(s, true)
		}
		if err == nil {
			err = cmd.Run()
		}
		if err != nil {
			return err
		}
		if lives[i], err = readLife(log, s); err != nil {
			return err
		}
	}
	fmt.Printf("%s %s calls itself %q.\n", a.name, lives[0].version, lives[0].client)
	for _, name := range slices.Sorted(maps.Keys(lives[0].ids)) {
		same := "another after a resume"
		if lives[1].ids[name] == lives[0].ids[name] {
			same = "the same after a resume"
		}
		fmt.Printf("  %s = %s: %s\n", name, lives[0].ids[name], same)
	}
	fmt.Printf("  calls in flight at once: %d that only read, %d that change something\n", lives[0].reads, lives[0].changes)
	return s.close()
}

// probe is a message with two calls that only read and two that change something.
func probe() []call {
	read := call{tool: "list_files", args: map[string]any{"path": "."}}
	other := call{tool: "session_state", args: map[string]any{}}
	return []call{read, other, run("one", "sleep 0.3"), run("two", "sleep 0.3")}
}

// life has the words of one process of a client.
type life struct {
	client, version string
	// ids are values that may be ids, by where they were.
	ids map[string]string
	// reads and changes are how many such calls were in flight at once.
	reads, changes int
}

func readLife(path string, s *site) (l life, err error) {
	lines, err := spiedLog(path)
	l.ids = map[string]string{}
	flying := map[string]bool{}
	for _, line := range lines {
		for name, value := range line.Env {
			if !strings.Contains(strings.Join(s.environ(), "\n"), name+"=") && strings.Contains(strings.ToLower(name), "session") {
				l.ids["variable "+name] = value
			}
		}
		var m message
		if line.Line == nil || json.Unmarshal(line.Line, &m) != nil {
			continue
		}
		switch {
		case m.Method == "initialize":
			l.client, l.version = m.Params.ClientInfo.Name, m.Params.ClientInfo.Version
			l.gather("_meta of initialize: ", m.Params.Meta)
		case m.Method == "tools/call":
			l.gather("_meta: ", m.Params.Meta)
			flying[string(m.ID)] = m.Params.Name != "run_command"
		case line.From == "server":
			delete(flying, string(m.ID))
		}
		reads := 0
		for _, reading := range flying {
			if reading {
				reads++
			}
		}
		l.reads, l.changes = max(l.reads, reads), max(l.changes, len(flying)-reads)
	}
	return l, err
}

// gather notes the values of _meta that are long enough for an id.
func (l *life) gather(where string, meta map[string]any) {
	for name, value := range meta {
		switch v := value.(type) {
		case string:
			if _, known := l.ids[where+name]; len(v) > 8 && !known {
				l.ids[where+name] = v
			}
		case map[string]any:
			l.gather(where+name+".", v)
		}
	}
}
