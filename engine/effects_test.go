package engine_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func image(files map[string]string, path string) session.Image {
	c, ok := files[path]
	if !ok {
		return session.Image{Kind: "absent"}
	}
	return session.Image{Kind: "file", Hash: hash(c), Size: int64(len(c)), Mode: 0o644}
}

// workspace is the access of one process to the files of its world.
type workspace struct {
	// nil, because only calls of an agent are guarded
	engine.Guarding

	w        *world
	prepared map[string]prepared
	// contents by path, as Prepare hashed them
	held map[string]string
}

type prepared struct {
	ts    []session.Transition
	after map[string]string
}

func newWorkspace(w *world) *workspace {
	return &workspace{w: w, prepared: map[string]prepared{}}
}

func fileStep(message string) error {
	return &session.Error{Code: session.ErrFileStep, Message: message}
}

func (f *workspace) state(path string) session.FileState {
	i := image(f.w.files, path)
	if mode := f.w.modes[path]; mode != 0 {
		i.Mode = mode
	}
	return session.FileState{Path: path, Hash: i.Hash, Size: i.Size, Mode: i.Mode}
}

func (f *workspace) Read(ctx context.Context, r session.Read) ([]session.FileState, error) {
	if f.w.onRead != nil {
		f.w.onRead()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := f.w.call("read"); err != nil {
		return nil, err
	}
	if _, ok := f.w.files[r.Path]; !ok {
		return nil, fileStep("no file " + r.Path)
	}
	return []session.FileState{f.state(r.Path)}, nil
}

func (f *workspace) Search(_ context.Context, s session.Search) (string, bool, []session.FileState, error) {
	if err := f.w.call("search"); err != nil {
		return "", false, nil, err
	}
	var found strings.Builder
	var files []session.FileState
	for _, path := range slices.Sorted(maps.Keys(f.w.files)) {
		if strings.Contains(f.w.files[path], s.Pattern) {
			found.WriteString(path + ":1: " + f.w.files[path] + "\n")
			files = append(files, f.state(path))
		}
	}
	return found.String(), false, files, nil
}

func (f *workspace) Prepare(_ context.Context, key string, changes []session.Change) ([]session.Transition, error) {
	if err := f.w.call("prepare"); err != nil {
		return nil, err
	}
	f.w.note("prepare")
	f.held = maps.Clone(f.w.files)
	after := maps.Clone(f.w.files)
	from := map[string]string{}
	var paths []string
	for _, c := range changes {
		old, exists := after[c.Path]
		switch c.Op {
		case session.KindWrite:
			after[c.Path] = c.Content
		case session.KindEdit:
			if strings.Count(old, c.Old) != 1 {
				return nil, fileStep("no single match in " + c.Path)
			}
			after[c.Path] = strings.Replace(old, c.Old, c.New, 1)
		case session.KindDelete:
			if !exists {
				return nil, fileStep("no file " + c.Path)
			}
			delete(after, c.Path)
		case session.KindMove:
			if _, ok := after[c.From]; !ok {
				return nil, fileStep("no file " + c.From)
			}
			after[c.To], from[c.To] = after[c.From], c.From
			delete(after, c.From)
		}
		paths = append(paths, c.Path, c.From, c.To)
	}
	slices.Sort(paths)
	var ts []session.Transition
	for _, p := range slices.Compact(paths) {
		if p != "" {
			ts = append(ts, session.Transition{Path: p, Pre: image(f.w.files, p), Post: image(after, p), From: from[p]})
		}
	}
	f.prepared[key] = prepared{slices.Clone(ts), after}
	return ts, nil
}

func (f *workspace) Image(path, hash string) (io.Reader, error) {
	if err := f.w.call("image"); err != nil {
		return nil, err
	}
	if image(f.held, path).Hash == hash {
		return strings.NewReader(f.held[path]), nil
	}
	for _, p := range f.prepared {
		if image(p.after, path).Hash == hash {
			return strings.NewReader(p.after[path]), nil
		}
	}
	return nil, fileStep("no such content of " + path)
}

func (f *workspace) Apply(_ context.Context, key string) ([]session.FileState, error) {
	if err := f.w.call("apply"); err != nil {
		return nil, err
	}
	p := f.prepared[key]
	for _, t := range p.ts {
		if image(f.w.files, t.Path) != t.Pre {
			return nil, &session.Error{Code: session.ErrFileChanged, Message: t.Path + " changed"}
		}
	}
	f.w.note("effect %s", short(key))
	before := maps.Clone(f.w.files)
	f.w.temp[key] = true
	var out []session.FileState
	for _, t := range p.ts {
		if err := f.w.call("apply one"); err != nil {
			f.w.files = before // all or none
			delete(f.w.temp, key)
			return out, err
		}
		if t.From != "" {
			delete(f.w.files, t.From) // a rename is both at once
		}
		if c, ok := p.after[t.Path]; ok {
			f.w.files[t.Path] = c
		} else if !slices.ContainsFunc(p.ts, func(u session.Transition) bool { return u.From == t.Path }) {
			delete(f.w.files, t.Path)
		}
		back := f.state(t.Path)
		back.Hash = t.Pre.Hash
		out = append(out, back)
	}
	out = nil
	for _, t := range p.ts {
		out = append(out, f.state(t.Path))
	}
	delete(f.w.temp, key)
	f.w.reached("applied")
	return out, f.w.call("look at what was applied")
}

func (f *workspace) Discard(key string) { delete(f.prepared, key) }

func (f *workspace) Inspect(_ context.Context, key string, ts []session.Transition) (session.Progress, []session.FileState, error) {
	if err := f.w.call("inspect"); err != nil {
		return "", nil, err
	}
	pre, post := 0, 0
	var foreign []session.FileState
	for _, t := range ts {
		now := image(f.w.files, t.Path)
		if now == t.Pre {
			pre++
		}
		if now == t.Post {
			post++
		}
		if now != t.Pre && now != t.Post {
			foreign = append(foreign, f.state(t.Path))
		}
	}
	switch {
	case len(foreign) > 0:
		return session.Foreign, foreign, nil
	case f.w.temp[key]:
		return session.Partial, nil, nil
	case post == len(ts):
		return session.Applied, nil, nil
	case pre == len(ts):
		return session.NotApplied, nil, nil
	}
	return session.Partial, nil, nil
}

func (f *workspace) Rollback(_ context.Context, key string, ts []session.Transition, foreign []session.FileState, pre func(string) (io.ReadCloser, error)) error {
	if err := f.w.call("rollback"); err != nil {
		return err
	}
	var overwrite []string
	for _, o := range foreign {
		overwrite = append(overwrite, o.Path)
	}
	f.w.note("rollback %s overwriting %v", short(key), overwrite)
	before := maps.Clone(f.w.files)
	for _, t := range ts {
		now := image(before, t.Path)
		switch moved := slices.IndexFunc(ts, func(u session.Transition) bool { return u.From == t.Path }); {
		case now == t.Pre || now != t.Post && !slices.Contains(overwrite, t.Path):
		case t.Pre.Absent():
			delete(f.w.files, t.Path)
		case moved >= 0:
			f.w.files[t.Path] = before[ts[moved].Path]
		default:
			r, err := pre(t.Pre.Hash)
			if err != nil {
				return err
			}
			b, err := io.ReadAll(r)
			if err != nil || r.Close() != nil {
				return err
			}
			f.w.files[t.Path] = string(b)
		}
	}
	delete(f.w.temp, key)
	f.w.reached("rolled back")
	return nil
}

func (f *workspace) Size(path string) int64 { return int64(len(f.w.files[path])) }

func (f *workspace) InPlace() error { return f.w.call("in place") }

func (f *workspace) Tidy(context.Context, string, []session.Transition) error {
	f.w.note("tidy")
	return f.w.call("tidy")
}

func (f *workspace) Stat(_ context.Context, known []session.FileState) ([]session.FileState, error) {
	if err := f.w.call("stat"); err != nil {
		return nil, err
	}
	out := make([]session.FileState, len(known))
	for i, k := range known {
		out[i] = f.state(k.Path)
	}
	return out, nil
}

// supervisor runs the commands of a world. It survives a crash unless the world kills it
// too. The first word of a command says what it does:
//
//	ledger X, echo X, env NAME, has X, exit N, write PATH X, chmod PATH, raw QUOTED,
//	repeat N X, spaces, leaves, linger, torn X, unknown, hang, refuse, unstartable,
//	starve, slow, late, beyond, killed, told, back
type supervisor struct{ w *world }

func (c supervisor) Look(_ context.Context, key string) (session.CommandRecord, error) {
	if rec, ok := c.w.record(key); ok {
		return rec, nil
	}
	return session.CommandRecord{Key: key, State: session.CommandUnclaimed}, nil
}

func (c supervisor) Trace(ctx context.Context, key string) (session.CommandRecord, error) {
	return c.Look(ctx, key)
}

func (c supervisor) Run(ctx context.Context, req session.CommandRequest) (session.CommandRecord, error) {
	if err := c.w.call("run"); err != nil {
		return session.CommandRecord{}, err
	}
	if rec, ok := c.w.record(req.Key); ok {
		if rec.State == session.CommandRunning {
			return c.hang(ctx, rec)
		}
		return rec, nil
	}
	c.w.note("effect %s", short(req.Key))
	c.w.lastKey, c.w.lastEnv = req.Key, req.Env
	words := strings.Fields(req.Argv[len(req.Argv)-1])
	rec := session.CommandRecord{Key: req.Key, State: session.CommandFinished, Epoch: req.Epoch, StartedUS: 10, EndedUS: 30}
	if c.w.dies("claimed") {
		if c.w.killsToo {
			if c.w.happened {
				c.do(req, words, &rec)
			}
			rec.State, rec.Why = session.CommandUnknown, "its supervisor was killed"
		} else {
			c.do(req, words, &rec)
		}
		c.w.keep(rec)
		panic(crash{})
	}
	if c.w.during != nil {
		c.w.during(c.w, strings.Join(words, " "))
	}
	if words[0] == "hang" {
		return c.hang(ctx, rec)
	}
	if words[0] == "refuse" {
		return rec, &session.Error{Code: session.ErrEscape, Message: "dir leaves the workspace"}
	}
	c.do(req, words, &rec)
	c.w.keep(rec)
	return rec, nil
}

// do executes the command.
func (c supervisor) do(req session.CommandRequest, words []string, rec *session.CommandRecord) {
	rest := strings.Join(words[1:], " ")
	c.w.doneKeys[req.Key] = true
	switch words[0] {
	case "ledger":
		c.w.ledger = append(c.w.ledger, rest)
	case "echo":
		c.w.out[req.Key] = rest + "\n"
	case "overflow": // the disk is full
		c.w.out[req.Key], rec.Lost = rest+"\n", "9 bytes could not be kept"
	case "raw":
		c.w.out[req.Key], _ = strconv.Unquote(rest)
	case "secret":
		c.w.out[req.Key] = c.w.secret
	case "spaces":
		c.w.out[req.Key] = "x" + strings.Repeat(" ", 128<<10) + "y"
	case "repeat":
		n, _ := strconv.Atoi(words[1])
		c.w.out[req.Key] = strings.Repeat(words[2], n)
	case "env":
		for _, kv := range slices.Backward(req.Env) {
			if v, ok := strings.CutPrefix(kv, rest+"="); ok {
				c.w.ledger = append(c.w.ledger, v)
				break
			}
		}
	case "has":
		if !slices.Contains(c.w.ledger, rest) {
			rec.Exit = 1
		}
	case "exit":
		rec.Exit, _ = strconv.Atoi(rest)
	case "write":
		c.w.files[words[1]] = strings.Join(words[2:], " ")
	case "chmod":
		c.w.modes = map[string]uint32{rest: 0o755}
	case "torn": // the first attempt dies with its supervisor
		if strings.HasSuffix(req.Key, ":1") {
			rec.State, rec.Why = session.CommandUnknown, "its supervisor was killed"
		}
		if rec.State == session.CommandFinished || c.w.happened {
			c.w.ledger = append(c.w.ledger, rest)
			c.w.out[req.Key] = rest + "\n"
		}
	case "leaves":
		rec.Left = []string{"77 sleep hunter2"}
	case "linger":
		rec.State, rec.Why, rec.Left = session.CommandLingering, "descendants are left", []string{"77 sleep hunter2"}
	case "unknown":
		rec.State, rec.Why = session.CommandUnknown, "its supervisor was killed"
	case "running":
		rec.State = session.CommandRunning
	case "unstartable":
		rec.Exit, rec.StartError = -1, "no such file"
	case "starve": // the machine has no process for it
		rec.Exit, rec.StartError, rec.Starved = -1, "try again", true
	case "slow":
		rec.Exit, rec.TimedOut = -1, true
	case "late": // it was told to end and reports that it found nothing
		rec.Exit, rec.TimedOut = 1, true
	case "back": // the clock was set back meanwhile
		rec.StartedUS, rec.EndedUS = 30, 10
	case "beyond":
		rec.Exit, rec.TimedOut, rec.Left = -1, true, []string{"77 sudo"}
	case "killed":
		rec.Exit, rec.Signal = -1, "SIGKILL"
	case "signal":
		rec.Exit, rec.Signal = -1, rest
	case "told":
		rec.Exit, rec.Signal = -1, "SIGTERM"
	}
}

func (c supervisor) end(key string) chan struct{} {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.w.ends[key] == nil {
		c.w.ends[key] = make(chan struct{})
	}
	return c.w.ends[key]
}

func (c supervisor) hang(ctx context.Context, rec session.CommandRecord) (session.CommandRecord, error) {
	rec.State = session.CommandRunning
	c.w.keep(rec)
	select {
	case <-ctx.Done():
		return rec, context.Cause(ctx)
	case <-c.end(rec.Key):
		if rec, _ := c.w.record(rec.Key); rec.State == session.CommandFinished {
			return rec, nil
		}
		return c.Wait(ctx, rec.Key)
	}
}

// finish ends a command that hangs.
func (c supervisor) finish(key string) {
	end := c.end(key)
	c.w.amend(key, func(rec *session.CommandRecord) { rec.State = session.CommandFinished })
	close(end)
}

func (c supervisor) Wait(_ context.Context, key string) (session.CommandRecord, error) {
	if err := c.w.call("wait"); err != nil {
		return session.CommandRecord{}, err
	}
	c.w.amend(key, func(rec *session.CommandRecord) {
		if rec.State == session.CommandRunning {
			rec.State, rec.Exit, rec.Signal, rec.Cancelled = session.CommandFinished, -1, "SIGINT", true
		}
	})
	rec, _ := c.w.record(key)
	return rec, nil
}

func (c supervisor) Terminate(_ context.Context, key string) error {
	if err := c.w.call("terminate"); err != nil {
		return err
	}
	c.w.note("terminate %s", short(key))
	close(c.end(key))
	return nil
}

func (c supervisor) Output(key string) (stdout, stderr io.ReadCloser, err error) {
	if err := c.w.call("output"); err != nil {
		return nil, nil, err
	}
	return io.NopCloser(&output{w: c.w, Reader: strings.NewReader(c.w.out[key])}), io.NopCloser(strings.NewReader("")), nil
}

// output is a stream that may fail at its first read.
type output struct {
	io.Reader
	w     *world
	begun bool
}

func (o *output) Read(p []byte) (int, error) {
	if !o.begun {
		o.begun = true
		if err := o.w.call("read output"); err != nil {
			return 0, err
		}
	}
	return o.Reader.Read(p)
}

// Left returns the processes that the script of the world has for this call.
func (c supervisor) Left(context.Context, string) ([]string, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.w.left == 0 {
		return nil, nil
	}
	c.w.left--
	return []string{"77 sleep hunter2"}, nil
}

func (c supervisor) Forget(key string) error {
	if err := c.w.call("forget"); err != nil {
		return err
	}
	c.w.note("forget %s", short(key))
	return nil
}

// person answers as scripted; nil means that no person can be asked.
type person struct {
	permit    func(ctx context.Context, question, offer string) (engine.Answer, error)
	approve   func(ctx context.Context, question string) (engine.Answer, error)
	uncertain func(ctx context.Context, why string) (session.OnInterrupt, error)
	linger    func(ctx context.Context) (bool, error)
}

func (p person) Approve(ctx context.Context, _ session.Item, question string) (engine.Answer, error) {
	if p.approve == nil {
		return engine.Answer{}, session.ErrApproval
	}
	return p.approve(ctx, question)
}

func (p person) Permit(ctx context.Context, _ session.Item, question, offer string) (engine.Answer, error) {
	if p.permit == nil {
		return engine.Answer{}, session.ErrApproval
	}
	return p.permit(ctx, question, offer)
}

func (p person) Uncertain(ctx context.Context, _ session.Item, _ []string, why string) (session.OnInterrupt, error) {
	if p.uncertain == nil {
		return "", session.ErrUncertain
	}
	return p.uncertain(ctx, why)
}

func (person) Left(context.Context) <-chan struct{} { return nil }

func (p person) Linger(ctx context.Context, _ session.Item, _ []string) (bool, error) {
	if p.linger == nil {
		return false, session.ErrUncertain
	}
	return p.linger(ctx)
}
