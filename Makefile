# The way in: `make` lists the targets. What one needs and the machine lacks is installed by scripts/setup.sh,
# which says so first; SETUP=0 leaves that out.

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
# Built once, as "go run" of a version asks the network each time whether it is deprecated.
LINTERS = $(CURDIR)/build/linters/$(shell go env GOVERSION 2>/dev/null)

# Go, in the environment in which it finds libbpf.
GO := scripts/env.sh go

# BPF needs root. Programs are built as the user and run through sudo, if there is one.
AS_ROOT = $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

# find, of our own files only. The nested modules are what `go test ./...` leaves out.
FIND = find . \( -path ./build -o -path ./libbpf -o -path ./.git \) -prune -o
NESTED = $(patsubst %/,%,$(dir $(shell $(FIND) -path './*/go.mod' -print)))

.PHONY: help setup fetch tool man install demo fleet-demo test test-nocgo test-cgocheck test-vm test-vms soak simulate fuzz conformance conformance-docs bench bench-docs pictures recordings lint generate check-generate fresh-check fresh-ci static test-libbpf apidiff release release-check clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 24

setup: ## install what is missing for a build (gcc, libbpf, ...)
	@scripts/setup.sh

fetch: $(LINTERS) ## fetch the Go modules that builds, tests and lint need, while there is a network
	@for dir in . $(NESTED); do go -C $$dir list -deps -test ./... >/dev/null || exit 1; done

$(LINTERS): Makefile
	@rm -rf $@ $@.new
	@GOBIN=$@.new go install $(STATICCHECK)
	@GOBIN=$@.new go install $(ACTIONLINT)
	@mv $@.new $@ && touch $@

# For another architecture than this machine's, it is built without cgo.
tool: $(if $(ARCH),,setup) ## build the tool, build/ringfold; ARCH=arm64 builds build/ringfold-arm64, static
	@mkdir -p build
ifeq ($(ARCH),)
	@$(GO) -C cmd/ringfold build -trimpath -o "$(CURDIR)/build/ringfold" .
else
	@CGO_ENABLED=0 GOOS=linux GOARCH=$(ARCH) go -C cmd/ringfold build -trimpath -o "$(CURDIR)/build/ringfold-$(ARCH)" .
endif

man: tool ## write the tool's man pages and shell completions, into build/man and build/completion
	@rm -rf build/man build/completion
	@build/ringfold man build/man
	@mkdir -p build/completion
	@for shell in bash zsh fish; do build/ringfold completion $$shell >build/completion/$$shell || exit 1; done

PREFIX ?= /usr/local
SHARE = $(DESTDIR)$(PREFIX)/share

install: man ## install the tool, its man pages and completions to PREFIX=/usr/local
	@$(AS_ROOT) install -D -m 755 build/ringfold "$(DESTDIR)$(PREFIX)/bin/ringfold"
	@$(AS_ROOT) install -D -m 644 -t "$(SHARE)/man/man1" build/man/*.1
	@$(AS_ROOT) install -D -m 644 build/completion/bash "$(SHARE)/bash-completion/completions/ringfold"
	@$(AS_ROOT) install -D -m 644 build/completion/zsh "$(SHARE)/zsh/site-functions/_ringfold"
	@$(AS_ROOT) install -D -m 644 build/completion/fish "$(SHARE)/fish/vendor_completions.d/ringfold.fish"
	@echo "installed $(DESTDIR)$(PREFIX)/bin/ringfold, its man pages and completions"

demo: setup ## show the same kernel events read ring by ring and in order, without building all of the tool; ARGS='--all --timeout 5s' is passed on
	@$(GO) -C cmd/ringfold build -trimpath -o "$(CURDIR)/build/ringfold-demo" ./internal/demo/alone
	@$(AS_ROOT) build/ringfold-demo demo $(ARGS)

fleet-demo: tool ## show several hosts' events as one stream, over an embedded NATS server; ARGS='--outage --timeout 5s' is passed on
	@$(AS_ROOT) build/ringfold fleet demo $(ARGS)

test: setup ## run all tests: the library's without libbpf, and with it, the race detector, and poisoning what must not be kept
	@scripts/test.sh

test-nocgo: setup ## run what tests run without cgo, and the conformance suite
	@CGO_ENABLED=0 go test -count=1 -timeout $(or $(TIMEOUT),20m) ./internal/bpf ./internal/libbpftest ./internal/grace ./internal/perfevent ./perfbuf ./dropin/...
	@READERS=ringfold-nocgo scripts/conformance.sh -short -out build/conformance-nocgo.json

test-cgocheck: setup ## run the tests of the packages that call C with Go's thorough check of pointers
	@GOEXPERIMENT=cgocheck2 $(GO) test -count=1 -timeout $(or $(TIMEOUT),20m) ./cgo ./perfbuf

# Both scripts take their settings, which make exports when they are given on its command line, from the environment.
test-vm: setup ## run the kernel tests in an emulated machine: KERNEL=6.1 CPUS=4; TESTS, ARGS, APPEND, ARCH=arm64: see scripts/vm/run.sh
	@scripts/setup.sh $(if $(filter arm64,$(ARCH)),vm-arm64,vm)
	@scripts/vm/run.sh

test-vms: setup ## the same with kernels 5.10 to 7.2 and 1 to 64 CPUs, and a table (hours under software emulation)
	@scripts/setup.sh vm
	@scripts/vm/matrix.sh

# How long, and how to read: fold, foreach, batches, records, rings, slack, exact, sources, or all of these in turn.
DURATION ?= 30s
MODE ?= exact

soak: setup ## check every event of real programs on all CPUs, DURATION=10m MODE=exact|slack|all|...; ARGS=-h lists more
	@$(GO) build -o build/soak ./internal/soak
	@$(AS_ROOT) build/soak -mode $(MODE) -duration $(DURATION) $(ARGS)

simulate: setup ## run the simulation of ordered streams for longer; SEEDS=1000 is how many runs of each set-up
	@$(GO) test ./internal/simulate -count=1 -v -run TestStream -timeout 0 -seeds $(or $(SEEDS),100)

fuzz: setup ## feed readers hostile bytes and scripts, FUZZTIME=60s for each kind; FUZZ=Reader selects
	@FUZZTIME="$(or $(FUZZTIME),60s)" FUZZ="$(FUZZ)" scripts/fuzz.sh

# Which readers and scenarios, separated by commas. READERS=all are those whose adapters can be built here; a path is your own.
READERS ?= ringfold
SCENARIOS ?=

conformance: setup ## run the conformance suite against READERS=ringfold,libbpf,...|all|./adapter; SCENARIOS=order,life/keep selects
	@READERS="$(READERS)" SCENARIOS="$(SCENARIOS)" scripts/conformance.sh $(ARGS)

conformance-docs: ## render docs/conformance.md from build/conformance.json
	@build/conformance/suite -docs docs/conformance.md

# Which benchmarks, separated by commas; all by default.
BENCH ?=

bench: setup ## measure ringfold and its peers side by side (10 minutes); BENCH=drain,ordered selects
	@mkdir -p build
	@flags=$$(scripts/aya.sh bench/aya libayapeer.a build/aya/libayapeer.a) && flags="-tags=aya -ldflags=-X=main.ayaLibrary=$$flags"; \
		$(GO) -C bench build $$flags -o "$(CURDIR)/build/bench" .
	@$(AS_ROOT) build/bench -bench "$(BENCH)" $(ARGS)

bench-docs: setup ## render docs/benchmarks.md and its plots from build/bench.json
	@$(GO) -C bench build -o "$(CURDIR)/build/bench-docs" ./plot
	@build/bench-docs

pictures: setup ## take the pictures in docs/ anew, of programs that run (root); PICTURES='top tail' selects
	@scripts/setup.sh pictures
	@scripts/pictures.sh $(PICTURES)

# With -race, as most of `make test`: so dependencies are compiled once for both.
lint: setup $(LINTERS) ## check format, go vet (also where there is no cgo, no Linux, or 32 bits), staticcheck, and the workflows
	@bad=$$(gofmt -l $$($(FIND) -name '*.go' -print)) && [ -z "$$bad" ] || { echo "gofmt -w needed: $$bad"; exit 1; }
	@for dir in . $(NESTED); do \
		$(GO) -C $$dir vet -race ./... || exit 1; \
		(cd $$dir && GOFLAGS=-race $(CURDIR)/$(firstword $(GO)) $(LINTERS)/staticcheck ./...) || exit 1; \
	done
	@$(GO) -C bench vet -race -tags aya .
	@CGO_ENABLED=0 go vet -trimpath ./cgo/... ./dropin/... ./internal/... ./perfbuf/...
	@CGO_ENABLED=0 GOARCH=386 go vet ./cgo/... ./dropin/... ./internal/... ./perfbuf/...
	@CGO_ENABLED=0 GOOS=darwin go vet ./cgo/... ./dropin/... ./internal/... ./perfbuf/...
	@$(LINTERS)/actionlint -shellcheck= -pyflakes= .github/workflows/*.yml

recordings: setup ## record the examples' programs anew, as test data in perfbuf/perfdata/testdata (root)
	@UPDATE_RECORDINGS=1 RINGFOLD_REQUIRE_KERNEL=1 $(GO) test ./perfbuf/perfdata -count=1 -run TestMakeRecordings

generate: ## rebuild the BPF programs (*.bpf.o) from their C sources
	@scripts/setup.sh generate
	@scripts/generate.sh

check-generate: ## tell whether the committed BPF programs are those of the C sources
	@scripts/setup.sh generate
	@scripts/generate.sh --check

fresh-check: ## install the tool as the README does and run it, and `make test`, in a new Debian 12, from nothing (root, some minutes)
	@scripts/setup.sh fresh-check
	@scripts/fresh-check.sh

fresh-ci: ## run all of .ci/run in a new Debian 12, which has Go, git and make (root)
	@scripts/setup.sh fresh-check
	@scripts/chroot.sh fresh-ci .ci/run

static: setup ## build static programs into build/static: the tool, and the examples with libbpf inside; run them where there is no other file
	@scripts/static.sh
	@$(AS_ROOT) scripts/static-run.sh

test-libbpf: setup ## build with libbpf 1.1 to 1.7 and run kernel tests, dynamic and static, and a table; RELEASES='trixie sid' selects
	@scripts/libbpf-matrix.sh $(RELEASES)

apidiff: setup ## compare the exported API with the last release's; VERSION=v0.1.1 says whether that allows for the changes
	@scripts/apidiff.sh $(VERSION)

release: setup ## build VERSION=v0.1.0 for publication, into build/release, and print its tags: docs/releasing.md
	@scripts/release.sh $(VERSION)

release-check: setup ## try `make release` on a clone, and that users' modules can use what it makes
	@scripts/release/test.sh

clean: ## remove build/
	@rm -rf --one-file-system build
