package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// gitPatience is how long git may take for one answer. A FIFO among the files that it
// reads, or a dead network, would block it forever.
const gitPatience = 30 * time.Second

// repository is a directory to run git in, with the limit for each answer.
type repository struct {
	dir      string
	patience time.Duration
}

// Git is the state of a workspace as git reports it. The zero value means that there is
// no repository.
type Git struct {
	// Head is the commit; empty before the first one.
	Head string `json:"head,omitempty"`
	// Branch is empty when HEAD is detached.
	Branch string `json:"branch,omitempty"`
	// Dirty says that a tracked file differs, or that a file is untracked.
	Dirty bool `json:"dirty,omitempty"`
	// Digest is the SHA-256 of the status. Equal digests mean equal states. It is empty
	// if git does not answer.
	Digest string `json:"digest,omitempty"`

	// Silent is the reason why git does not answer although there seems to be a
	// repository. git may be missing, may not trust the repository's owner, or may take
	// too long.
	Silent string `json:"-"`
}

// GitState asks git for HEAD, branch and dirty state of dir. Nothing that the
// repository configures is executed (W5): not fsmonitor, hooks, clean and process
// filters, external diff, textconv or remote helpers. Because filters stay off, a
// repository that uses them may show touched files as dirty. GitState returns an error
// only when ctx ends.
func GitState(ctx context.Context, dir string) (Git, error) {
	return repository{dir, gitPatience}.state(ctx)
}

func (r repository) state(ctx context.Context) (Git, error) {
	if !inRepository(r.dir) {
		return Git{}, ctx.Err()
	}
	filters, err := r.filterNames(ctx)
	if err != nil {
		return Git{Silent: r.silence(err)}, ctx.Err()
	}
	out, err := r.git(ctx, filters, "status", "--porcelain=v2", "--branch", "-z",
		"--untracked-files=normal", "--ignore-submodules=all", "--no-renames", "--no-ahead-behind")
	if err != nil {
		return Git{Silent: r.silence(err)}, ctx.Err()
	}
	return parseStatus(out), nil
}

// silence returns in one line why git failed. It returns "" if git found no repository.
func (r repository) silence(err error) string {
	if errors.Is(err, exec.ErrNotFound) {
		return "it is not installed"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %s", r.patience)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || len(exit.Stderr) == 0 {
		return err.Error()
	}
	said, _, _ := strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n")
	if strings.HasPrefix(said, "fatal: not a git repository (or any") {
		return ""
	}
	return strings.TrimPrefix(said, "fatal: ")
}

// errNoRepository says that neither a directory nor one above it has a .git.
var errNoRepository = errors.New("no repository")

// inRepository reports whether git could find a repository with a work tree for dir. It
// looks for a .git in the real directory and in each one above. That costs a few system
// calls, while starting git takes a few milliseconds. It returns true if it cannot
// look, so that git decides.
func inRepository(dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(real) {
		return true
	}
	for {
		if _, err := os.Lstat(filepath.Join(real, ".git")); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
		above := filepath.Dir(real)
		if above == real {
			return false
		}
		real = above
	}
}

// parseStatus reads porcelain v2: header lines beginning with #, then one entry for
// each difference.
func parseStatus(out []byte) Git {
	sum := sha256.Sum256(out)
	g := Git{Digest: hex.EncodeToString(sum[:])}
	for line := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		head, isHead := strings.CutPrefix(line, "# branch.oid ")
		branch, isBranch := strings.CutPrefix(line, "# branch.head ")
		switch {
		case isHead && head != "(initial)":
			g.Head = head
		case isBranch && branch != "(detached)":
			g.Branch = branch
		case line != "" && !strings.HasPrefix(line, "# "):
			g.Dirty = true
		}
	}
	return g
}

// setting is one configuration value that overrides the repository's.
type setting struct{ key, value string }

// neutral returns settings that switch off everything that a repository can make git
// execute during status and ls-files.
func neutral() []setting {
	return []setting{
		{"core.fsmonitor", "false"}, {"core.hooksPath", os.DevNull}, {"core.untrackedCache", "false"},
		{"core.attributesFile", os.DevNull}, {"core.sshCommand", "false"}, {"core.gitProxy", ""},
		{"core.pager", "cat"}, {"core.askPass", "false"}, {"core.alternateRefsCommand", "false"},
		{"diff.external", ""}, {"credential.helper", ""}, {"protocol.allow", "never"},
		{"status.submoduleSummary", "false"}, {"submodule.recurse", "false"}, {"log.showSignature", "false"},
	}
}

// filterNames returns the settings that switch off every filter in any configuration.
// Otherwise status would run the clean filter of a file that looks modified, and
// attributes in the tree choose the filter. Listing the configuration executes nothing.
func (r repository) filterNames(ctx context.Context) ([]setting, error) {
	out, err := r.git(ctx, nil, "config", "--list", "--name-only", "-z", "--includes")
	if err != nil {
		return nil, err
	}
	var off []setting
	seen := map[string]bool{}
	for key := range strings.SplitSeq(string(out), "\x00") {
		last := strings.LastIndexByte(key, '.')
		if !strings.HasPrefix(key, "filter.") || last < len("filter.") || seen[key[:last]] {
			continue
		}
		seen[key[:last]] = true
		for _, part := range []string{"clean", "smudge", "process"} {
			off = append(off, setting{key[:last] + "." + part, ""})
		}
		off = append(off, setting{key[:last] + ".required", "false"})
	}
	return off, nil
}

// lastWords is how long acode waits for the rest of the output after git has ended. A
// git that is a script may leave processes that keep the output open forever.
const lastWords = 500 * time.Millisecond

// git runs one git command in r. Everything executable is switched off, and the command
// gets none of the GIT_ variables of this process. Settings are passed in the
// environment, where a name may have any character.
func (r repository) git(ctx context.Context, more []setting, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-optional-locks", "--no-replace-objects", "--literal-pathspecs"}, args...)...)
	cmd.Dir = r.dir
	cmd.WaitDelay = lastWords
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "GIT_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	settings := append(neutral(), more...)
	cmd.Env = append(cmd.Env, "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0",
		"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_SSH_COMMAND=false", "GIT_ASKPASS=false", "GIT_PAGER=cat",
		"LC_ALL=C", fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)))
	for i, s := range settings {
		cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s.key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s.value))
	}
	out, err := cmd.Output()
	if err != nil && ctx.Err() != nil {
		// the error of git says only how it was ended
		err = ctx.Err()
	}
	return out, err
}

// maxNamed is the number of paths that git gets as arguments. For more paths git lists
// the whole tree.
const maxNamed = 1000

// listed returns the files at or below some paths in r that git tracks, and the
// untracked ones that it does not ignore.
func (r repository) listed(ctx context.Context, at []string) ([]string, error) {
	if !inRepository(r.dir) {
		return nil, errNoRepository
	}
	args := []string{"ls-files", "--cached", "--others", "--exclude-standard", "-z", "--"}
	if len(at) <= maxNamed {
		args = append(args, at...)
	}
	out, err := r.git(ctx, nil, args...)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name != "" && !strings.HasSuffix(name, "/") {
			names = append(names, name)
		}
	}
	return names, nil
}
