# The two commands of a newcomer are `make demo` and `make test`; the rest is for developers.

GO ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
COVERED := ./session/...,./resume/...,./engine/...,./local/...,./lock/...

.PHONY: build demo demo-sync test test-postgres18 check cross torture mutants bench clean docs

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/ ./cmd/acode ./cmd/acode-sync

# Runs an example plan, kills acode with -9 in the middle, resumes, and shows the ledger.
demo: build
	@./scripts/demo bin/acode

# Runs a plan while its server is away, then starts the server, delivers, and shows what arrived.
demo-sync: build
	@./scripts/need postgres:postgresql curl
	@./scripts/demo-sync bin

# Everything with the race detector; installs git, gcc, sqlite3, PostgreSQL, PgBouncer, Prometheus
# and systemd where they are missing. The PostgreSQL is a private one that ends with the tests;
# systemd only reads the units.
test:
	@./scripts/need git gcc:gcc,libc6-dev sqlite3 postgres:postgresql pgbouncer promtool:prometheus systemd-analyze:systemd
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
	cd internal/secrets && $(GO) test -count=1 -v .
	./scripts/fuzz 1m

# Plants mistakes in the code, one at a time, and runs the tests that claim to notice each. Fails
# when a named one survives, or more than one in ten of the others.
mutants:
	@./scripts/need git gcc:gcc,libc6-dev sqlite3 postgres:postgresql
	./scripts/postgres $(GO) run ./internal/mutants

# Writes docs/cli.md, docs/cli-sync.md and the transcript in docs/guide.md from the program itself.
docs: build
	bin/acode reference >docs/cli.md
	bin/acode-sync reference >docs/cli-sync.md
	./scripts/transcript bin/acode docs/guide.md
	@./scripts/need tmux
	./scripts/screens bin/acode docs/screens.md

# Figures beside their limits; docs/benchmarks.md says what they mean. A figure over its limit
# is marked and fails nothing: the machine may be busy.
bench:
	@./scripts/need git sqlite3 postgres:postgresql
	./scripts/postgres $(GO) run ./internal/bench
	cd bench/peers && ../../scripts/postgres $(GO) run .

clean:
	rm -rf bin
