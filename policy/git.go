package policy

import (
	"slices"
	"strings"

	"github.com/acode-dev/acode/shell"
)

// history are the flags of the commands of git that show commits and differences. -O is
// not among them: for grep it starts a pager. Nor are --ext-diff, --textconv and
// --output.
var history = flags("pwbszqcmRit", "nUSGLM", `oneline stat numstat shortstat name-only name-status graph all decorate patch no-patch cached staged color no-color
	abbrev-commit format pretty since until after before author grep merges no-merges reverse first-parent follow word-diff no-ext-diff no-textconv max-count summary
	raw date ignore-all-space diff-filter find-renames unified minimal branches tags remotes check exit-code quiet`, -1)

// gitReaders are the commands of git that may only read.
var gitReaders = map[string]func([]shell.Word) bool{
	"log": history, "show": history, "diff": history,
	"status": flags("sbz", "u", "short branch porcelain long ignored untracked-files show-stash ahead-behind", -1),
	"branch": flags("arv", "", "list show-current all remotes", 0),
	"tag":    flags("l", "", "list", 0),
	"remote": flags("v", "", "verbose", 0),
	"reflog": flags("", "", "", 0),
	"stash": func(args []shell.Word) bool {
		return len(args) == 1 && args[0] == shell.Word{Text: "list", Exact: true}
	},
	"rev-parse":  flags("", "", "show-toplevel abbrev-ref short verify is-inside-work-tree git-dir show-prefix", -1),
	"rev-list":   flags("", "n", "count all max-count", -1),
	"merge-base": flags("a", "", "is-ancestor all", -1),
	"ls-files":   flags("cdmoiskuzt", "", "exclude-standard cached modified deleted others stage error-unmatch full-name", -1),
	"ls-tree":    flags("rtdlz", "", "name-only full-tree", -1),
	"cat-file":   flags("ptse", "", "", -1),
	"blame":      flags("wslefnp", "L", "porcelain line-porcelain", -1),
	"describe":   flags("", "", "tags always dirty long abbrev all", -1),
	"shortlog":   flags("sne", "", "all", -1),
	"grep":       flags("inlcwvFEPhHoI", "ABCe", "ignore-case line-number files-with-matches count word-regexp cached", -1),
	"version":    flags("", "", "", 0), "--version": flags("", "", "", 0),
}

var (
	// flags before the command that start nothing
	gitFlags   = strings.Fields("--no-pager -P --no-optional-locks")
	gitChanges = strings.Fields("add commit checkout switch restore reset merge cherry-pick revert branch tag stash mv apply am notes rm clean")
	gitNetwork = strings.Fields("push fetch pull clone ls-remote remote submodule archive lfs svn send-email fetch-pack send-pack upload-pack p4 http-fetch http-push")
	// they drop changes that are in no commit
	gitDrops = strings.Fields("rm clean restore reset checkout")
)

// gitPrograms are further commands of git that start nothing without a flag for it, with
// these flags. A template has hooks.
var gitPrograms = map[string]string{
	"push": "receive-pack exec", "fetch": "upload-pack", "pull": "upload-pack", "ls-remote": "upload-pack exec",
	"clone": "u upload-pack c config template", "init": "template",
}

// git returns the effects of a command of git. Everything of git that is not
// known may execute a program: an alias, a hook or an argument.
func git(args []shell.Word) []need {
	known := true
	for len(args) > 0 && strings.HasPrefix(args[0].Text, "-") && gitReaders[args[0].Text] == nil {
		skipped := 1
		if first := args[0].Text; first == "-C" || first == "-c" {
			skipped = min(2, len(args))
		}
		known = known && (args[0].Text == "-C" || slices.Contains(gitFlags, args[0].Text)) && plain(args[skipped-1])
		args = args[skipped:]
	}
	if len(args) == 0 || !args[0].Exact {
		return []need{{class: Git, why: "git may change the repository"}, {class: Command, why: "git may start a program"}}
	}
	name, rest := args[0].Text, args[1:]
	if reads := gitReaders[name]; known && reads != nil && reads(rest) {
		return nil
	}
	out := []need{{class: Git, why: "git " + name + " may change the repository"}}
	if !known || !slices.Contains(gitChanges, name) && starts(name, rest) {
		out = append(out, need{class: Command, why: "git " + name + " may start a program"})
	}
	if slices.Contains(gitNetwork, name) {
		out = append(out, need{class: Network, why: "git " + name + " may use the network"})
	}
	if slices.Contains(gitDrops, name) || slices.Contains([]string{"branch", "tag", "stash", "switch"}, name) && drops(rest) {
		out = append(out, need{class: Delete, why: "git " + name + " may drop work"})
	}
	return out
}

// starts reports whether a command of git may start a program that an argument names.
func starts(name string, args []shell.Word) bool {
	names, ok := gitPrograms[name]
	return !ok || gives(args, names) || slices.ContainsFunc(args, func(a shell.Word) bool { return !a.Exact || strings.Contains(a.Text, "::") })
}

// drops reports whether an argument deletes or replaces branches, tags, stashes or
// changes.
func drops(args []shell.Word) bool {
	return slices.ContainsFunc(args, func(a shell.Word) bool {
		short := strings.HasPrefix(a.Text, "-") && !strings.HasPrefix(a.Text, "--") && strings.ContainsAny(a.Text, "dDfCM")
		return !plain(a) || short || strings.HasPrefix(a.Text, "--d") || strings.HasPrefix(a.Text, "--f") || a.Text == "drop" || a.Text == "clear" || a.Text == "pop"
	})
}
