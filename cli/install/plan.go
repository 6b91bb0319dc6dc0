package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/acode-dev/acode/session"
)

// Change is the change of one file.
type Change struct {
	Path      string
	old, next content
}

// Diff shows the change; empty for none.
func (c Change) Diff() string {
	from, to := c.Path, c.Path
	if !c.old.exists {
		from = os.DevNull
	}
	if !c.next.exists {
		to = os.DevNull
	}
	return udiff.Unified(from, to, string(c.old.data), string(c.next.data))
}

// record lists the additions to the files of a client.
type record struct {
	V     int     `json:"v"`
	Files []added `json:"files"`
}

// added lists the additions to one file.
type added struct {
	Path string `json:"path"`
	// Made says that the file did not exist, MadeDir that its directory did not.
	Made    bool    `json:"made,omitempty"`
	MadeDir bool    `json:"made_dir,omitempty"`
	Entries []entry `json:"entries,omitempty"`
	Tables  []table `json:"tables,omitempty"`
}

// Plan is a change of a client's configuration that is not written yet.
type Plan struct {
	Client  Client
	Changes []Change
	// record is the record to write; nil to remove it.
	record *record
	at     string
	// removes are directories to remove if they are empty.
	removes []string
}

// recordOf returns the path of a client's record.
func (p Place) recordOf(c Client) string {
	return filepath.Join(p.Records, "client-"+c.Name+".json")
}

// Add plans to add acode's tools to a client.
func Add(c Client, p Place) (Plan, error) {
	plan := Plan{Client: c, at: p.recordOf(c)}
	r, err := readRecord(plan.at)
	if err != nil {
		return plan, err
	}
	plan.record = &r
	for _, t := range c.targets(p) {
		change, a, err := install(t)
		if err != nil && len(r.Files) > 0 {
			return plan, refused(c, t.path, fmt.Errorf("%w; to change what acode added, remove it first: acode uninstall %s --write", err, c.Name))
		}
		if err != nil {
			return plan, refused(c, t.path, err)
		}
		if change.next.same(change.old) {
			continue
		}
		plan.Changes = append(plan.Changes, change)
		r.merge(a)
	}
	return plan, nil
}

func install(t target) (Change, added, error) {
	change, a := Change{Path: t.path}, added{Path: t.path}
	var err error
	if change.old, err = load(t.path); err != nil {
		return change, a, err
	}
	a.Made = !change.old.exists
	if _, err := os.Stat(filepath.Dir(t.path)); errors.Is(err, fs.ErrNotExist) {
		a.MadeDir = true
	}
	text, err := a.fill(string(change.old.data), t)
	change.next = content{[]byte(text), true}
	if err == nil {
		err = a.undoable(text, string(change.old.data))
	}
	return change, a, err
}

// undoable reports whether Remove would give the old text back.
func (a added) undoable(text, old string) error {
	back, err := a.strip(text)
	if err != nil || back != old {
		return errForm
	}
	return nil
}

// fill returns the text of a file with the additions of a target, and notes them.
func (a *added) fill(text string, t target) (string, error) {
	if t.tables != nil {
		doc, err := parseTOML(text)
		for _, want := range t.tables {
			if err != nil {
				return "", err
			}
			var got table
			if got, err = doc.add(want); len(got.Lines) > 0 {
				a.Tables = append(a.Tables, got)
			}
		}
		return doc.String(), err
	}
	doc, err := parse(text)
	for _, want := range t.entries {
		if err != nil {
			return "", err
		}
		var got []entry
		got, err = doc.add(want)
		a.Entries = append(a.Entries, got...)
	}
	return doc.String(), err
}

// merge notes additions. Those of an earlier time stay noted.
func (r *record) merge(a added) {
	i := slices.IndexFunc(r.Files, func(old added) bool { return old.Path == a.Path })
	if i < 0 {
		r.Files = append(r.Files, a)
		return
	}
	old := &r.Files[i]
	old.Entries, old.Tables = append(old.Entries, a.Entries...), append(old.Tables, a.Tables...)
}

// Remove plans to remove the additions of Add.
func Remove(c Client, p Place) (Plan, error) {
	plan := Plan{Client: c, at: p.recordOf(c)}
	r, err := readRecord(plan.at)
	if err != nil {
		return plan, err
	}
	if len(r.Files) == 0 {
		return plan, &session.Error{Code: session.ErrUsage, Message: "acode has no record of additions to the configuration of " + c.Title + "; nothing was changed", Place: plan.at,
			Next: session.Words("remove entries that you made yourself by hand")}
	}
	for _, a := range r.Files {
		change, err := uninstall(a)
		if err != nil {
			return plan, refused(c, a.Path, err)
		}
		plan.Changes = append(plan.Changes, change)
		if a.MadeDir && !change.next.exists {
			plan.removes = append(plan.removes, filepath.Dir(a.Path))
		}
	}
	return plan, nil
}

func uninstall(a added) (Change, error) {
	change := Change{Path: a.Path}
	var err error
	if change.old, err = load(a.Path); err != nil || !change.old.exists {
		return change, err
	}
	text, err := a.strip(string(change.old.data))
	change.next = content{[]byte(text), !a.Made || strings.TrimSpace(text) != ""}
	if !change.next.exists {
		change.next.data = nil
	}
	return change, err
}

// strip returns the text of a file without the additions, the last one first.
func (a added) strip(text string) (string, error) {
	if a.Tables == nil && a.Entries == nil {
		return text, nil
	}
	if a.Tables != nil {
		doc, err := parseTOML(text)
		for _, t := range slices.Backward(a.Tables) {
			if err == nil {
				err = doc.remove(t)
			}
		}
		return doc.String(), err
	}
	doc, err := parse(text)
	if err != nil {
		return "", err
	}
	for _, e := range slices.Backward(a.Entries) {
		doc.remove(e)
	}
	return doc.String(), nil
}

// Write carries the plan out. The record is written before the additions and removed
// after them, so it never lacks one.
func (p Plan) Write() error {
	if p.record != nil {
		if err := p.writeRecord(); err != nil {
			return err
		}
	}
	for _, c := range p.Changes {
		if c.next.same(c.old) {
			continue
		}
		err := os.MkdirAll(filepath.Dir(c.Path), 0o700)
		if err == nil {
			err = store(c.Path, c.old, c.next)
		}
		if err != nil {
			return refused(p.Client, c.Path, err)
		}
	}
	if p.record != nil {
		return nil
	}
	for _, dir := range p.removes {
		_ = os.Remove(dir) // it stays if it holds something now
	}
	return discard(p.at)
}

func (p Plan) writeRecord() error {
	data, err := json.MarshalIndent(p.record, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(p.at), 0o700)
	}
	var old content
	if err == nil {
		old, err = load(p.at)
	}
	if err == nil {
		err = store(p.at, old, content{append(data, '\n'), true})
	}
	return err
}

func readRecord(path string) (r record, err error) {
	c, err := load(path)
	if err == nil && c.exists {
		err = json.Unmarshal(c.data, &r)
	}
	if err != nil || r.V > 1 {
		err = &session.Error{Code: session.ErrConfig, Message: "the record of what acode added to a client's configuration cannot be read; nothing was changed", Place: path, Cause: err,
			Next: session.Words("move the record away, and remove the entries by hand")}
	}
	r.V = 1
	return r, err
}

// refused explains why a file of a client stays as it is.
func refused(c Client, path string, err error) error {
	next := fmt.Sprintf("look at the file; %s itself may refuse it, too", c.Title)
	if errors.Is(err, errChanged) {
		next = "try again"
	}
	return &session.Error{Code: session.ErrConfig, Message: "the configuration of " + c.Title + " cannot be changed; this file stays as it is", Place: path, Cause: err, Next: session.Words(next)}
}
