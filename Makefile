# `make help` prints what each target does.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The race detector needs cgo; what is built to be used does not.
GO_TEST := CGO_ENABLED=1 go test -race
LINT := go tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint

# Counts of the long runs, as in `make soak SOAK_ROUNDS=50 SOAK_POWERCUTS=200`.
SOAK_ROUNDS ?= 1000
SOAK_POWERCUTS ?= 10000
FUZZ_TIME ?= 60s

.PHONY: help
help: ## print this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/emanet, statically linked
	CGO_ENABLED=0 go build -trimpath -o bin/emanet ./cmd/emanet

.PHONY: release
release: ## build the files of a release with their checksums in dist/
	scripts/release

.PHONY: test
test: tools ## everything a change must pass: vet, house rules, all tests with the race detector
	go vet ./...
	$(GO_TEST) ./internal/arch/
	$(GO_TEST) -timeout 15m ./...
	cd e2e && go vet ./... && $(GO_TEST) -count=1 -timeout 20m ./...
	cd bench && go vet ./... && $(GO_TEST) -short ./...

.PHONY: test-32bit
test-32bit: ## the product's tests as a 32-bit program, which runs on amd64
	CGO_ENABLED=0 GOARCH=386 go vet ./...
	CGO_ENABLED=0 GOARCH=386 go test ./...

.PHONY: tools
tools: # what the tests need, installed once
	scripts/install-test-tools

.PHONY: soak
soak: export EMANET_SOAK = 1
soak: export EMANET_SOAK_ROUNDS = $(SOAK_ROUNDS)
soak: export EMANET_TEST_POWERCUTS = $(SOAK_POWERCUTS)
soak: tools ## the random tests with SOAK_ROUNDS (1000) and SOAK_POWERCUTS (10000); hours
	$(GO_TEST) -count=1 -timeout 24h ./...
	cd e2e && CGO_ENABLED=0 go test -count=1 -timeout 24h -v ./...

.PHONY: scale
scale: export EMANET_SOAK = 1
scale: ## 10,000 connections a second, a million subscriptions and retained topics; prints what it measures
	cd e2e && CGO_ENABLED=0 go test -count=1 -v -run 'Storm|ManySubscriptions|FortyThousand' .

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZ_TIME (60s) each
	scripts/fuzz $(FUZZ_TIME)

.PHONY: bench-mqtt
bench-mqtt: tools ## MQTT beside Mosquitto and beside the bare disk (about 20 minutes)
	cd bench && go run ./cmd/bench

.PHONY: bench-journal
bench-journal: ## the journal alone: cost of an append and of a lone commit
	go test -run '^$$' -bench . -benchmem ./internal/journal/

.PHONY: bench-store
bench-store: ## the embedded store: fold, paging, open, replay, and packed pages against rows (ADR 0001)
	go test -run '^$$' -bench 'Layout|Backlog|PassThrough' -benchtime 1000000x ./internal/store/local
	go test -run '^$$' -bench 'ManyLanes' -benchtime 20x ./internal/store/local
	go test -run '^$$' -bench 'Replay' -benchtime 3x ./internal/store/local

.PHONY: bench-micro
bench-micro: ## the codec and the topic trie: cost per packet and per match
	go test -run '^$$' -bench . -benchmem ./internal/mqttwire/ ./internal/topic/

.PHONY: lint
lint: ## golangci-lint over all modules (about two minutes when cold)
	$(LINT) run ./...
	cd e2e && $(LINT) run --config=$(CURDIR)/.golangci.yaml ./...
	cd bench && $(LINT) run --config=$(CURDIR)/.golangci.yaml ./...

.PHONY: conformance
conformance: ## write docs/conformance/mqtt.md from the clause tags in the tree
	go test ./internal/conformance -run TestTheTableFollowsFromTheTree -update -count=1
