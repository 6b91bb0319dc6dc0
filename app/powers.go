package app

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/policy"
	"github.com/acode-dev/acode/session"
)

// powers returns what models may do: the configuration, and the rules that the person
// added for every session.
func (s *Setup) powers() (policy.Powers, error) {
	a := s.Settings.Config.Approvals
	p := policy.Powers{Write: policy.Action(a.Write), Delete: policy.Action(a.Delete), Command: policy.Action(a.Command),
		Network: policy.Action(a.Network), Git: policy.Action(a.Git)}
	var raw []byte
	err := trusted(s.rulesFile())
	if err == nil {
		raw, err = os.ReadFile(s.rulesFile())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, &session.Error{Code: session.ErrConfig, Message: "the rules about models cannot be read; nothing was changed", Place: s.rulesFile(), Cause: err,
			Next: session.Words("make it a file of yours that only you can write, or remove it")}
	}
	p.Rules, err = readRules(raw, s.rulesFile())
	return p, err
}

// trusted returns an error for a file of rules that someone else may have written.
func trusted(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return errors.New("it belongs to another user")
	}
	if info.Mode()&0o022 != 0 {
		return errors.New("other users can write it")
	}
	return nil
}

// rulesFile has the rules that a person added for every session, one a line.
func (s *Setup) rulesFile() string {
	return filepath.Join(filepath.Dir(config.UserFile(s.Getenv)), "approvals.jsonl")
}

// readRules reads rules, one a line. Empty lines and lines that begin with # count as
// nothing.
func readRules(text []byte, place string) (rules []policy.Rule, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		rule, err := policy.ParseRule(line)
		if err != nil {
			return nil, &session.Error{Code: session.ErrConfig, Message: "a rule about models is not valid; nothing was changed", Place: fmt.Sprintf("%s:%d", place, n), Cause: err,
				Next: session.Words("correct or remove this line")}
		}
		rules = append(rules, rule)
	}
	return rules, lines.Err()
}

// keepRule adds a rule for every later session. It is durable on return.
func (s *Setup) keepRule(rule string) error {
	file := s.rulesFile()
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = appendLine(file, rule)
	}
	if err == nil {
		err = syncName(file)
	}
	if err != nil {
		return &session.Error{Code: session.ErrConfig, Message: "the answer was recorded, but its rule for later sessions was not kept", Place: file, Cause: err}
	}
	return nil
}

// appendLine adds a line to a file. A person may have left its last line without an end.
func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	var last [1]byte
	if err == nil && info.Size() > 0 {
		if _, err = f.ReadAt(last[:], info.Size()-1); last[0] != '\n' {
			line = "\n" + line
		}
	}
	if err == nil {
		_, err = f.WriteString(line + "\n")
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// syncName makes the name of a file durable.
func syncName(file string) error {
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// judge says whether the call that does some work in a step is allowed. rules are those
// of the session, one a line.
type judge = func(of session.StepID, work session.Step, rules string) session.Permission

// judges returns the judge of the calls of models and agents. Commands that run without a
// sandbox are never allowed only because they seem to read.
func (s *Setup) judges() (judge, error) {
	powers, err := s.powers()
	if err != nil {
		return nil, err
	}
	return func(of session.StepID, work session.Step, added string) session.Permission {
		p := powers
		more, err := readRules([]byte(added), "the session")
		if err != nil { // the journal is signed, so an older acode wrote them
			more = nil
		}
		p.Rules = slices.Concat(powers.Rules, more)
		v := p.Judge(work, s.facts(of))
		out := session.Permission{Ask: v.Action == policy.Ask, Deny: v.Action == policy.Deny, Class: string(v.Class), Reason: v.Reason, Confine: v.Confine}
		if v.Offer != nil {
			out.Offer, out.Means = v.Offer.String(), v.Offer.Sentence()
		}
		switch how := s.agent(); {
		case work.Run == nil || how == session.Confined:
		case how == session.ConfinedOnline && v.Confine == session.Confined:
			out.Confine = how
		case how == session.Unconfined:
			if v.Confine == session.ConfinedReading {
				out.Ask, out.Deny = out.Ask || p.Command != policy.Allow, out.Deny || p.Command == policy.Deny
			}
			out.Confine = how
		}
		return out
	}, nil
}

// facts are what the judge asks about this machine.
func (s *Setup) facts(of session.StepID) policy.Facts {
	return policy.Facts{
		Workspace: s.Workspace, Step: of,
		Program: s.program, Hash: s.hashOf,
	}
}

// program returns the path of a program without symbolic links. It returns "" if the path
// is not certain: with a relative entry in PATH, the directory of a command decides.
func (s *Setup) program(name, dir string) string {
	switch {
	case strings.ContainsRune(name, '/') && !filepath.IsAbs(name):
		name = filepath.Join(s.Workspace, dir, name)
	case !filepath.IsAbs(name) && slices.ContainsFunc(filepath.SplitList(os.Getenv("PATH")), func(p string) bool { return !filepath.IsAbs(p) }):
		return ""
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil || !filepath.IsAbs(path) {
		return ""
	}
	return path
}

// mostHashed is the greatest size of a file that a rule binds.
const mostHashed = 64 << 20

// hashOf returns the hash of a regular file; "" for anything else, and for a file that is
// too large.
func (s *Setup) hashOf(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Workspace, path)
	}
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostHashed {
		return ""
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, mostHashed)); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
