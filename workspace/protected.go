package workspace

import (
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Protected lists the paths that other programs execute or trust, at any depth below the
// root. A directory stands for everything in it. docs/threats.md gives the reasons.
func Protected() []string {
	return []string{
		// git executes these, or finds its configuration by them
		".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".gitmodules",
		// programs that run hooks for git
		".githooks", ".husky", ".lefthook", "lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml", "lefthook-local.yml", ".pre-commit-config.yaml",
		// shells execute these when a person enters the directory
		".envrc", ".mise", ".mise.toml", "mise.toml",
		// editors
		".vscode", ".idea", ".fleet", ".zed", ".devcontainer", ".devcontainer.json", "*.code-workspace", ".exrc", ".nvimrc", ".nvim.lua", ".vimrc", ".dir-locals.el", ".dir-locals-2.el",
		// agents, acode among them
		".agent", "AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", ".mcp.json", ".claude", ".codex", ".gemini", ".opencode", "opencode.json", "opencode.jsonc",
		".cursor", ".cursorrules", ".windsurf", ".windsurfrules", ".clinerules", ".roo", ".continue", ".aider.conf.yml", ".github/copilot-instructions.md", ".github/instructions",
		// services that run what a repository says
		".github/workflows", ".github/actions", ".gitlab-ci.yml", ".circleci", "Jenkinsfile", "azure-pipelines.yml", ".travis.yml", "bitbucket-pipelines.yml", ".buildkite", ".drone.yml", ".woodpecker", ".forgejo/workflows", ".gitea/workflows",
	}
}

// The names below have the form of folded.
const (
	gitName       = ".GIT"
	hooksName     = "HOOKS"
	modulesName   = "MODULES"
	worktreesName = "WORKTREES"
	claudeName    = ".CLAUDE"
	headName      = "HEAD"
	sampleSuffix  = ".SAMPLE"
)

// protectedNames returns Protected by components in the form of folded.
var protectedNames = sync.OnceValue(func() (all [][]string) {
	for _, p := range Protected() {
		all = append(all, strings.Split(folded(p), "/"))
	}
	return all
})

// folded returns the form in which two names are equal if any file system takes them for
// equal: one that ignores case, expands ligatures, or leaves out invisible characters.
func folded(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 0x200c && c <= 0x200f, c >= 0x202a && c <= 0x202e, c >= 0x206a && c <= 0x206f, c == 0xfeff:
			return -1
		}
		least := c
		for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, ligatures().Replace(name))
}

var ligatures = sync.OnceValue(func() *strings.Replacer {
	return strings.NewReplacer("ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st", "ß", "ss", "ẞ", "ss")
})

// begin returns the rests of the patterns that begin with a folded name.
func begin(patterns [][]string, name string) (rests [][]string) {
	for _, p := range patterns {
		if len(p) > 0 && (p[0] == name || strings.HasPrefix(p[0], "*") && segmentMatches(p[0], name)) {
			rests = append(rests, p[1:])
		}
	}
	return rests
}

// whole reports whether one of the patterns is at its end.
func whole(rests [][]string) bool {
	return slices.ContainsFunc(rests, func(p []string) bool { return len(p) == 0 })
}

// protects reports whether a file at name would be a protected path, lie below one, or
// take the place of a directory above one. Everything in .git counts, because only git
// writes there.
func protects(name string) bool {
	parts := strings.Split(folded(name), "/")
	for i := range parts {
		rests := protectedNames()
		for at, part := range parts[i:] {
			if part == gitName {
				return true
			}
			if rests = begin(rests, part); len(rests) == 0 {
				break
			}
			if last := i+at == len(parts)-1; last || whole(rests) && !checkouts(parts[:i+at+1], parts[i+at+1:]) {
				return true
			}
		}
	}
	return false
}

// checkouts reports whether below is in a directory of whole checkouts, which Claude Code
// keeps in its own directory. Only the protected paths in them are protected.
func checkouts(dir, below []string) bool {
	return dir[len(dir)-1] == claudeName && len(below) > 1 && below[0] == worktreesName
}

// exempt reports whether a name in a directory is not protected although the directory
// is: git does not execute the samples of hooks.
func exempt(dir, base string) bool {
	return folded(path.Base(dir)) == hooksName && strings.HasSuffix(folded(base), sampleSuffix)
}
