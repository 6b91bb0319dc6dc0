# The two commands of a newcomer are `make demo` and `make test`; the rest is for developers.

GO ?= go
export GO
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.16.0
VERSION := $(shell sed -n 's/^const Version = "\(.*\)"/\1/p' cli/main.go)
PREFIX ?= /usr/local

.PHONY: build share install uninstall package reproducible stranger demo demo-tools demo-agent demo-sync test test-postgres18 check cross torture e2e-claude e2e-codex e2e-ollama mutants bench clean docs

build:
	@./scripts/compile bin/ ./cmd/acode ./cmd/acode-sync ./cmd/acode-agent

# What is installed beside the programs: completion, and a manual page for each command.
share: build
	@rm -rf bin/share
	@mkdir -p bin/share/bash-completion/completions bin/share/zsh/site-functions bin/share/fish/vendor_completions.d
	@bin/acode completion bash >bin/share/bash-completion/completions/acode
	@bin/acode completion zsh >bin/share/zsh/site-functions/_acode
	@bin/acode completion fish >bin/share/fish/vendor_completions.d/acode.fish
	@bin/acode-sync reference --man bin/share/man/man1
	@bin/acode-agent reference --man bin/share/man/man1
	@bin/acode reference --man bin/share/man/man1

# make install PREFIX=$HOME/.local needs no other user. As root, where Go is not in the path, this
# installs the programs that `make share` built before.
install:
	@if command -v $(GO) >/dev/null || ! [ -d bin/share ]; then $(MAKE) --no-print-directory share; fi
	@install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/share/doc/acode"
	@install -m 0755 bin/acode bin/acode-sync bin/acode-agent "$(DESTDIR)$(PREFIX)/bin"
	@install -m 0644 LICENSE "$(DESTDIR)$(PREFIX)/share/doc/acode"
	@to=$$(cd "$(DESTDIR)$(PREFIX)/share" && pwd) && cd bin/share && \
		find . -type d -exec install -d "$$to/{}" \; && find . -type f -exec install -m 0644 {} "$$to/{}" \;
	@echo "Installed acode $(VERSION) into $(DESTDIR)$(PREFIX); remove it with: make uninstall PREFIX=$(PREFIX)"
	@[ -n "$(DESTDIR)" ] || case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "It is not in your PATH yet. Type: export PATH=$(PREFIX)/bin:\$$PATH" ;; esac

# Removes what install wrote. Stores, logs and configuration stay.
uninstall:
	@rm -f "$(DESTDIR)$(PREFIX)/bin/acode" "$(DESTDIR)$(PREFIX)/bin/acode-sync" "$(DESTDIR)$(PREFIX)/bin/acode-agent"
	@rm -f "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/acode" "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_acode" "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/acode.fish"
	@rm -f "$(DESTDIR)$(PREFIX)/share/man/man1/acode.1" "$(DESTDIR)$(PREFIX)/share/man/man1"/acode-*.1
	@rm -rf "$(DESTDIR)$(PREFIX)/share/doc/acode"
	@echo "Removed acode from $(DESTDIR)$(PREFIX); its sessions stay"

# deb, rpm and tar.gz for each platform, with checksums and a list of the modules inside (SBOM), in
# bin/dist. The first time it compiles goreleaser, and acode for four platforms.
package: share
	@echo "Packaging acode $(VERSION) with goreleaser: two minutes on two processors, and some ten minutes the first time."
	@ACODE_VERSION=$(VERSION) $(GO) run $(GORELEASER) release --snapshot --clean
	@./scripts/formula v$(VERSION) >bin/dist/acode.rb
	@echo "The packages are in bin/dist:" && ls bin/dist | grep -E '^SHA256SUMS$$|\.(deb|rpm|tar\.gz|rb|cdx\.json)$$'

# Builds programs and packages in two directories with a cache each, and compares them; installs with
# go install, as from a module proxy. Takes some minutes.
reproducible:
	@./scripts/reproducible

# What a stranger does first, in a root that holds a shell and the package: install, run, Ctrl-C, resume,
# kill -9, logs, approve, status, remove.
stranger: package
	@./scripts/need busybox:busybox-static script:bsdutils man:man-db
	@./scripts/stranger bin/dist/acode_*_linux_$$($(GO) env GOARCH).deb

# Runs an example plan, kills acode with -9 in the middle, resumes, and shows the ledger. Takes half a
# minute, and one or two more to compile for the first time.
demo: build
	@./scripts/demo bin/acode

# Kills an agent that works with acode's tools, once alone and once with its server, and shows that each
# command ran once. The agent is a fixed list of calls. Then the same with Claude Code, if it is on the
# PATH. Takes half a minute after compiling.
demo-tools: build
	@$(GO) build -o bin/demo ./internal/e2e
	@./scripts/demo-tools bin

# Lets a model do a step of a plan, kills acode while a command of the model runs and while a reply
# arrives, resumes, and shows that each command ran once. The model follows a script. Takes ten seconds
# after compiling.
demo-agent: build
	@./scripts/demo-agent bin

# Runs a plan while its server is away, then starts the server, delivers, and shows what arrived.
demo-sync: build
	@./scripts/need postgres:postgresql curl
	@./scripts/demo-sync bin

# Everything with the race detector; installs git, gcc, sqlite3, script, PostgreSQL, PgBouncer, Prometheus
# and systemd where they are missing; bash-completion, zsh, busybox, dpkg and man for what is installed.
# The PostgreSQL is a private one that ends with the tests; systemd only reads the units.
test:
	@ACODE_RACE=1 ./scripts/compile
	@./scripts/need git gcc:gcc,libc6-dev sqlite3 script:bsdutils postgres:postgresql pgbouncer promtool:prometheus systemd-analyze:systemd \
		make node:nodejs npm pytest-3:python3-pytest zsh dh_bash-completion:bash-completion busybox:busybox-static man:man-db dpkg-deb:dpkg
	@./scripts/test

# What talks to PostgreSQL, against version 18, which Debian does not have yet. The restored server
# is left out: pg_basebackup of an older version copies none of a newer one.
test-postgres18:
	@./scripts/need postgres:postgresql npm sqlite3
	./scripts/postgres18 $(GO) test -count=1 ./remote ./cli/sync
	./scripts/postgres18 $(GO) test -count=1 -skip TestServerRestored ./internal/drain

check:
	@odd=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) || exit 1; [ -z "$$odd" ] || { echo "$$odd"; echo 'run: gofmt -w .'; exit 1; }
	@large=$$(git ls-files -z | xargs -0 stat -c '%s %n' | awk '$$1 > 500000'); [ -z "$$large" ] || { echo "built files are no sources: $$large"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) test ./internal/arch

cross:
	@for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do \
		echo "build $$target"; \
		CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) build -o /dev/null ./cmd/... || exit 1; \
	done

# Kills acode at its durable calls, shuts it down by signals, cancels it, resumes it, and judges where it
# ends; cuts and kills deliveries and their server likewise. Takes a while. For a first impression:
# go run ./internal/torture -n 2 -plans 2 -scenarios 2 -disks 1 -images 10
torture:
	@./scripts/need bash sqlite3 postgres:postgresql mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs
	$(GO) run ./internal/torture
	$(GO) run ./internal/drain
	ACODE_TORTURE_FLIPS=6000 ACODE_TORTURE_RESUMES=200 $(GO) test -count=1 -v -timeout 2h ./internal/campaign
	ACODE_TORTURE_LONG=1 $(GO) test -count=1 -v -timeout 1h ./local
	ACODE_TORTURE_LONG=1 $(GO) test -count=1 -v -run HeldAfterEachKill ./app
	cd internal/secrets && $(GO) test -count=1 -v .
	cd internal/sdks && $(GO) test -count=1 -v .
	./scripts/fuzz 1m

# Kill Claude Code or Codex while they work with acode's tools, continue them by their own commands,
# and judge the end; measure how late they forget an answer; and kill them with their own tools, for
# comparison. A scripted model on loopback drives them. Each installs its client with npm into
# bin/e2e and takes about a quarter of an hour.
e2e-claude: build
	@./scripts/need npm
	$(GO) run ./internal/e2e -client claude

e2e-codex: build
	@./scripts/need npm
	$(GO) run ./internal/e2e -client codex

# A real server of Ollama and a model of our own making: kill acode in a call and in a reply, and judge
# the end. It builds the server into bin/e2e, which takes a few minutes, once.
e2e-ollama: build
	@./scripts/need g++ /usr/include/nlohmann/json.hpp:nlohmann-json3-dev /usr/include/stb/stb_image.h:libstb-dev
	@GO="$(GO)" ./scripts/ollama bin/e2e/ollama
	$(GO) run ./internal/ollama bin bin/e2e/ollama

# Plants mistakes in the code, one at a time, and runs the tests that claim to notice each. Fails
# when a named one survives, or more than one in ten of the others.
mutants:
	@./scripts/need git gcc:gcc,libc6-dev sqlite3 script:bsdutils postgres:postgresql
	./scripts/postgres $(GO) run ./internal/mutants

# Writes docs/cli.md, docs/cli-sync.md, docs/cli-agent.md and the transcripts in docs/guide.md from the program itself.
docs: build
	@command -v claude >/dev/null || { echo "docs/guide.md shows Claude Code at work. Install it: npm install -g @anthropic-ai/claude-code"; exit 1; }
	@./scripts/need tmux busybox:busybox-static script:bsdutils man:man-db
	bin/acode reference >docs/cli.md
	bin/acode-sync reference >docs/cli-sync.md
	bin/acode-agent reference >docs/cli-agent.md
	./scripts/stranger >bin/stranger.txt && ./scripts/insert bin/stranger.txt docs/guide.md
	$(GO) build -o bin/demo ./internal/e2e && ./scripts/demo-tools bin claude >bin/tools.txt && ./scripts/insert bin/tools.txt docs/guide.md tools
	./scripts/screens bin/acode docs/screens.md

# Figures beside their limits; docs/benchmarks.md says what they mean. A figure over its limit
# is marked and fails nothing: the machine may be busy.
bench:
	@./scripts/need git sqlite3 postgres:postgresql
	./scripts/postgres $(GO) run ./internal/bench
	cd bench/peers && ../../scripts/postgres $(GO) run .

clean:
	rm -rf bin
