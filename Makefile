# kube-rebootd: `make demo` shows the main job, `make test` runs everything, `make bench` measures.

CARGO ?= cargo
DESTDIR ?=
PREFIX ?= /usr
BINARY = target/release/kube-rebootd

.PHONY: all build install demo bench test lint deny bed bed-down prepare clean

all: build

build: $(BINARY)

# Cargo knows better than make when the binary is stale.
.PHONY: $(BINARY)
$(BINARY):
	$(CARGO) build --release --locked --bin kube-rebootd

install: build
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/kube-rebootd
	install -D -m 644 systemd/kube-rebootd.service $(DESTDIR)$(PREFIX)/lib/systemd/system/kube-rebootd.service
	install -D -m 644 packaging/kube-rebootd.catalog $(DESTDIR)$(PREFIX)/lib/systemd/catalog/kube-rebootd.catalog
	# What an administrator wrote stays.
	test -e $(DESTDIR)/etc/kube-rebootd/config.toml || \
	  install -D -m 644 packaging/config.toml $(DESTDIR)/etc/kube-rebootd/config.toml
	install -d -m 755 $(DESTDIR)/etc/kube-rebootd/config.d
	install -d -m 755 $(DESTDIR)$(PREFIX)/share/doc/kube-rebootd/kubernetes
	install -m 644 kubernetes/*.yaml $(DESTDIR)$(PREFIX)/share/doc/kube-rebootd/kubernetes/

# The test bed: a real control plane and real hosts on this machine. Needs root.
BED = target/debug/bed
TOOLS = $(or $(KUBE_REBOOTD_CACHE),/var/cache/kube-rebootd-bed)/tools

.PHONY: $(BED)
$(BED):
	$(CARGO) build --locked -p testbed

prepare: $(BED)
	$(BED) prepare

# Hosts n1 to n$(HOSTS) in it, to play with.
HOSTS ?= 0

bed: $(BED) build
	$(BED) up --hosts $(HOSTS)

bed-down: $(BED)
	$(BED) down

# Three hosts reboot one after another, told live and judged; DEMO="--keep" leaves the bed up, DEMO="--slots 2"
# lets two be down at once.
DEMO ?=

demo: build $(BED)
	target/debug/demo --binary $(BINARY) $(DEMO)

# What it costs and how quick it is, beside kubectl drain: a table, and target/bench.json. For a quiet machine.
# BENCH="--row idle --row drain" measures only these; target/debug/bench --help tells more.
BENCH ?=

bench: build $(BED)
	target/debug/bench --binary $(BINARY) $(BENCH)

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings

# Licences, advisories, duplicates; cargo-deny is built once into the cache.
deny: $(TOOLS)/bin/cargo-deny
	$(TOOLS)/bin/cargo-deny --exclude-dev check bans licenses sources

$(TOOLS)/bin/cargo-deny:
	$(CARGO) install --locked --root $(TOOLS) cargo-deny@0.20.2

# Everything: lints, unit tests, the simulator, the real API server, real hosts; then what the whole
# suite asked of the API server. The bed goes down whatever happens.
test: lint prepare build
	$(BED) down
	$(BED) up
	trap '$(BED) down' EXIT; set -e; \
	  $(CARGO) test --locked --workspace --no-run; \
	  $(CARGO) test --locked --workspace --lib --bins --test it --test bed -- --test-threads=$(THREADS); \
	  $(CARGO) test --locked --test requests

# Hosts mostly wait; more threads than cores.
THREADS ?= 4
