# Every target is one command that can be typed without make.

.DEFAULT_GOAL := help
.PHONY: help build demo test lint fmt interop fuzz bench proof gate full behind

help: ## Print what each target does
	@grep -E '^[a-z]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+): .*## (.*)/\1|\2/' | awk -F'|' '{ printf "%-8s %s\n", $$1, $$2 }'

# A linked worktree has no version control stamps of the Go tool, so that the linker sets them.
VERSION = $(shell git describe --tags --exact-match --match 'v*' 2>/dev/null | sed 's/^v//')
OUT = baton
REVISION = $(shell git rev-parse HEAD 2>/dev/null)$(shell git diff --quiet HEAD 2>/dev/null || echo -dirty)

build: ## Build a small static binary, ./baton, with its version
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.linkedVersion=$(VERSION) -X main.linkedRevision=$(REVISION)' -o $(OUT) ./cmd/baton

demo: ## Show one handoff crossing from IRC to AIRC and back
	go run ./cmd/baton demo

test: ## Run the tests; needs nothing but Go
	go test ./...

lint: ## Find what the linters object to
	bash .ci/run lint

fmt: ## Format the code
	go tool -modfile=.tools/go.mod golangci-lint fmt

interop: ## Run the tests of real peers too, and install those where they are absent
	bash .ci/run install tests

fuzz: ## Run each fuzz target some thousand times
	bash .ci/run fuzz

bench: ## Measure; wants an otherwise idle machine
	go test -run='^$$' -bench=. ./...

proof: ## Count what is lost under faults, for 20 minutes; needs Linux, root, inspircd and postgresql
	deploy/bench/proof

gate: ## Run everything that a change must pass
	bash .ci/run

full: ## Run the gate with its long checks
	bash .ci/run full

behind: ## List the modules that have a newer version
	go list -m -u -e -f '{{if .Update}}{{.Path}} {{.Version}} {{.Update.Version}}{{end}}' $$(go list -m -f '{{if not (or .Indirect .Main)}}{{.Path}}{{end}}' all)
