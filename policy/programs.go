package policy

import (
	"regexp"
	"slices"
	"strings"

	"github.com/acode-dev/acode/shell"
)

// builtins are the commands of a shell that are judged like programs.
var builtins = []string{":", "true", "false", "echo", "printf", "test", "[", "pwd", "cd", "set", "exit", "eval", "command"}

// opaque are commands that change how a shell reads the rest of a text, and programs
// whose arguments are a command. Some are judged in a plain form, and not looked into
// otherwise.
var opaque = strings.Fields(`. alias bg bind break builtin caller case command compgen complete continue coproc declare disown enable eval exec export
	fc fg function getopts hash jobs let local logout mapfile popd pushd read readarray readonly return select shift shopt source suspend time times
	trap type typeset ulimit umask unalias unset wait [[ ((
	env sudo doas su runuser nohup nice ionice chrt setsid stdbuf timeout xargs parallel watch script unshare nsenter chroot flock strace ltrace gdb
	systemd-run busybox toybox entr find2perl expect at batch crontab setpriv capsh fakeroot dbus-run-session start-stop-daemon catchsegv ld.so`)

// multicall are the names of files that stand behind several programs: for one name, or
// for any.
var multicall = map[string][]string{
	"":   {"busybox", "toybox", "coreutils"},
	"sh": {"dash", "bash"}, "which": {"which.debianutils"},
}

// readers are the programs that may only read. Each has a function that reports whether
// it does so with given arguments.
var readers = func() map[string]func([]shell.Word) bool {
	out := map[string]func([]shell.Word) bool{
		"sort": flags("bdfghiMnrRVcCmsuz", "kt", "numeric-sort reverse unique key field-separator human-numeric-sort ignore-case version-sort stable check", -1),
		"uniq": flags("cdDiuz", "", "count repeated unique ignore-case", 1),
		"rg": flags("iIlcwvFoSsnNHhLqxU0", "ABCegtTmMd", `ignore-case line-number no-line-number files files-with-matches files-without-match count glob type type-not
			hidden no-ignore context after-context before-context fixed-strings word-regexp multiline max-count no-heading heading color only-matching sort max-depth
			smart-case json vimgrep`, -1),
		"diff": flags("uqrNabBwiyEtTcs", "UCxI", "unified brief recursive color ignore-all-space ignore-space-change side-by-side new-file exclude minimal", -1),
		"file": flags("bikLh0N", "", "brief mime mime-type mime-encoding dereference", -1),
		"date": date, "test": test, "[": test, "printf": printf, "set": set, "find": find, "sed": sed, "go": golang, "command": lookup,
		"node": version, "python": version, "python3": version, "gcc": version, "make": version, "java": version,
	}
	for _, name := range strings.Fields(always) {
		out[name] = func([]shell.Word) bool { return true }
	}
	return out
}()

// always lists programs that only read with all arguments.
const always = `: true false echo pwd cd exit ls cat head tail wc grep cut tr basename dirname realpath readlink stat du df uname whoami id groups
	cmp comm paste join nl od tac rev fold expand unexpand strings seq nproc arch which md5sum sha1sum sha224sum sha256sum sha384sum sha512sum cksum sum b2sum
	sleep jq`

// flags returns a function that accepts flags of a list and at most operands other words;
// below 0 means any number. valued are short flags with a value, and long are the names
// of long ones. A word after -- must be harmless as a flag too, because -- may be a
// value.
func flags(short, valued, long string, operands int) func([]shell.Word) bool {
	names := strings.Fields(long)
	return func(args []shell.Word) bool {
		found := 0
		for _, a := range args {
			switch {
			case !plain(a):
				return false
			case strings.HasPrefix(a.Text, "--"):
				name, _, _ := strings.Cut(a.Text[2:], "=")
				if a.Text == "--" && operands >= 0 || a.Text != "--" && !slices.Contains(names, name) {
					return false
				}
			case len(a.Text) > 1 && a.Text[0] == '-':
				at := strings.IndexAny(a.Text[1:], valued)
				rest := strings.Trim(a.Text[1:], "0123456789")
				if at >= 0 {
					rest = a.Text[1 : 1+at]
				}
				if strings.Trim(rest, short) != "" {
					return false
				}
			default:
				found++
			}
		}
		return operands < 0 || found <= operands
	}
}

// plain reports whether a word is known, or certainly no flag.
func plain(w shell.Word) bool {
	return w.Exact || w.Text != "" && !strings.HasPrefix(w.Text, "-")
}

// all reports whether each argument is known and ok.
func all(args []shell.Word, ok func(string) bool) bool {
	return !slices.ContainsFunc(args, func(w shell.Word) bool { return !w.Exact || !ok(w.Text) })
}

func matching(pattern string) func(string) bool {
	return regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString
}

var printfSets = regexp.MustCompile(`%[-+ #0-9.*\'hlLjzt$]*n`)

var (
	dateWord = matching(`\+.*|-u|-R|-I[a-z]*|--(utc|iso-8601|rfc-3339|date)(=.*)?`)
	setWord  = matching(`[-+][eux]+|-[eux]*o|pipefail`)
	sedWord  = matching(`[0-9]+(,([0-9]+|\$))?p`)
	findWord = matching(`[^-].*|-i?name|-i?path|-type|-(max|min)depth|-not|-a|-o|-and|-or|-size|-[mac]time|-[mac]min|-newer|-empty|-print0?|-prune|-i?regex|-perm|-user|-links|-ls|-[LHP]|-follow|-xdev|-mount|-printf|-[0-9]+[a-zA-Z]?`)
	goWord   = matching(`[A-Z0-9]+|-json|-changed`)
)

func date(args []shell.Word) bool { return all(args, dateWord) }
func set(args []shell.Word) bool  { return all(args, setWord) }

// test refuses -v and -R: bash executes a command in the name after them.
func test(args []shell.Word) bool {
	return all(args, func(a string) bool { return a != "-v" && a != "-R" })
}

// printf refuses -v and %n, by which bash sets a variable.
func printf(args []shell.Word) bool {
	return len(args) > 0 && args[0].Exact && !strings.HasPrefix(args[0].Text, "-") && !printfSets.MatchString(strings.ReplaceAll(args[0].Text, "%%", ""))
}

// lookup accepts command -v NAME.
func lookup(args []shell.Word) bool {
	return len(args) == 2 && args[0] == shell.Word{Text: "-v", Exact: true}
}

func find(args []shell.Word) bool {
	return !slices.ContainsFunc(args, func(w shell.Word) bool { return !plain(w) || !findWord(w.Text) })
}

// sed accepts nothing but sed -n LINES and files.
func sed(args []shell.Word) bool {
	if len(args) < 2 || !args[0].Exact || args[0].Text != "-n" || !args[1].Exact || !sedWord(args[1].Text) {
		return false
	}
	return !slices.ContainsFunc(args[2:], func(w shell.Word) bool { return !plain(w) || strings.HasPrefix(w.Text, "-") })
}

func golang(args []shell.Word) bool {
	switch {
	case len(args) == 0 || !args[0].Exact:
		return false
	case args[0].Text == "version":
		return len(args) == 1
	}
	return args[0].Text == "env" && all(args[1:], goWord)
}

func version(args []shell.Word) bool {
	return len(args) == 1 && args[0].Exact && args[0].Text == "--version"
}

// Programs with effects of their own.
var (
	deleters = strings.Fields("rm rmdir unlink shred truncate")
	networks = strings.Fields("curl ping ping6 dig host nslookup whois traceroute tracepath")
	// flags of curl that load a library, or a file with further flags
	curlLoads = "engine K config"
	// they also execute things that they get, or that the workspace holds
	remotes = strings.Fields(`wget nc ncat netcat telnet ssh scp sftp rsync ftp lftp mosh socat gh glab hub aws az gcloud gsutil kubectl helm docker docker-compose podman terraform ansible
		ansible-playbook vagrant npx pnpx bunx uvx pipx apt apt-get aptitude dnf yum zypper pacman apk brew snap flatpak twine psql mysql redis-cli mongosh`)
	// commands of package managers that fetch or send
	fetching = map[string]string{
		"npm": npm, "pnpm": npm, "yarn": npm + " ", "bun": npm,
		"pip": "install download search index wheel", "pip3": "install download search index wheel", "uv": "pip sync add tool run lock",
		"cargo": "fetch install update add publish search login", "go": "get install mod", "gem": "install update push fetch", "bundle": "install update",
		"composer": "install update require", "poetry": "install add update publish lock", "mvn": "deploy", "dotnet": "restore add nuget",
	}
)

const npm = "install i ci add update upgrade up publish audit outdated view info login dlx create exec x init search"

// effects returns the classes of a program that does more than read.
func effects(name string, args []shell.Word) []Class {
	first := ""
	for _, a := range args {
		if !strings.HasPrefix(a.Text, "-") {
			first = a.Text
			break
		}
	}
	switch {
	case slices.Contains(deleters, name):
		return []Class{Delete}
	case name == "curl" && gives(args, curlLoads):
		return []Class{Network, Write, Command}
	case slices.Contains(networks, name):
		return []Class{Network, Write}
	case slices.Contains(remotes, name), fetching[name] != "" && slices.Contains(strings.Split(fetching[name], " "), first):
		return []Class{Network, Command}
	}
	return []Class{Command}
}
