# kube-rebootd: `make demo` shows the main job, `make test` runs everything, `make bench` measures.

CARGO ?= cargo
DESTDIR ?=
PREFIX ?= /usr
# Another machine's program and packages: TARGET=aarch64-unknown-linux-gnu, with its Rust library (rustup target add)
# and its C compiler, which ring wants and which links (Debian: gcc-aarch64-linux-gnu).
TARGET ?=
MACHINE := $(firstword $(subst -, ,$(or $(TARGET),$(shell uname -m))))
CROSS = $(if $(TARGET),--target $(TARGET))
LINKER = $(if $(TARGET),CARGO_TARGET_$(shell echo $(TARGET) | tr a-z- A-Z_)_LINKER=$(MACHINE)-linux-gnu-gcc)
RELEASE = target/$(if $(TARGET),$(TARGET)/)release/kube-rebootd
# What is installed and tried; another one than $(RELEASE) is not built here.
BINARY = $(RELEASE)

.PHONY: all build install install-pacman demo bench matrix kernel check test test-build lint deny mutants
.PHONY: bed bed-down prepare packaging

all: build

build: $(BINARY)

COMPILE = $(LINKER) $(CARGO) build --release --locked $(CROSS) --bin kube-rebootd

# Cargo knows better than make when the binary is stale.
.PHONY: $(RELEASE)
$(RELEASE):
	$(COMPILE)

# Where distributions put things; packages may say otherwise.
SYSCONFDIR = /etc
UNITDIR = $(PREFIX)/lib/systemd/system
CATALOGDIR = $(PREFIX)/lib/systemd/catalog
TMPFILESDIR = $(PREFIX)/lib/tmpfiles.d
STATEDIR = /var/lib/kube-rebootd
DBUSDIR = $(PREFIX)/share/dbus-1
MANDIR = $(PREFIX)/share/man
DOCDIR = $(PREFIX)/share/doc/kube-rebootd
LICENSEDIR = $(PREFIX)/share/licenses/kube-rebootd
BASHDIR = $(PREFIX)/share/bash-completion/completions
ZSHDIR = $(PREFIX)/share/zsh/site-functions
FISHDIR = $(PREFIX)/share/fish/vendor_completions.d
ALPMDIR = $(PREFIX)/share/libalpm

install: build
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/kube-rebootd
	# kubectl's plugin: kubectl rebootd.
	ln -sf kube-rebootd $(DESTDIR)$(PREFIX)/bin/kubectl-rebootd
	install -D -m 644 -t $(DESTDIR)$(UNITDIR) systemd/kube-rebootd.service systemd/kube-rebootd-boot-ok.service
	install -D -m 644 -t $(DESTDIR)$(CATALOGDIR) packaging/kube-rebootd.catalog
	# What an administrator wrote stays.
	test -e $(DESTDIR)$(SYSCONFDIR)/kube-rebootd/config.toml || \
	  install -D -m 644 -t $(DESTDIR)$(SYSCONFDIR)/kube-rebootd packaging/config.toml
	install -d -m 755 $(DESTDIR)$(SYSCONFDIR)/kube-rebootd/config.d
	install -d -m 700 $(DESTDIR)$(STATEDIR)
	install -D -m 644 -t $(DESTDIR)$(TMPFILESDIR) packaging/tmpfiles.d/kube-rebootd.conf
	install -D -m 644 -t $(DESTDIR)$(DBUSDIR)/system.d packaging/dbus/org.kuberebootd1.conf
	install -D -m 644 -t $(DESTDIR)$(DBUSDIR)/interfaces packaging/dbus/org.kuberebootd1.Node.xml
	install -D -m 644 -t $(DESTDIR)$(MANDIR)/man5 packaging/man/kube-rebootd.toml.5
	install -D -m 644 -t $(DESTDIR)$(MANDIR)/man8 packaging/man/kube-rebootd.8 packaging/man/kubectl-rebootd.8
	install -D -m 644 packaging/completions/kube-rebootd.bash $(DESTDIR)$(BASHDIR)/kube-rebootd
	install -D -m 644 -t $(DESTDIR)$(ZSHDIR) packaging/completions/_kube-rebootd
	install -D -m 644 -t $(DESTDIR)$(FISHDIR) packaging/completions/kube-rebootd.fish
	install -D -m 644 -t $(DESTDIR)$(DOCDIR) README.md CHANGELOG.md
	install -D -m 644 -t $(DESTDIR)$(DOCDIR)/docs $(filter-out docs/SUMMARY.md,$(wildcard docs/*.md))
	install -D -m 644 -t $(DESTDIR)$(DOCDIR)/kubernetes kubernetes/*.yaml
	install -D -m 644 -t $(DESTDIR)$(DOCDIR)/examples $(filter-out %/hooks %/images,$(wildcard packaging/examples/*))
	install -D -m 644 -t $(DESTDIR)$(DOCDIR)/examples/hooks packaging/examples/hooks/*
	install -D -m 644 -t $(DESTDIR)$(DOCDIR)/examples/images packaging/examples/images/*
	install -D -m 644 -t $(DESTDIR)$(DOCDIR)/alerts packaging/alerts/*.rules.yaml
	install -D -m 644 -t $(DESTDIR)$(DOCDIR)/grafana packaging/grafana/kube-rebootd.json
	install -D -m 644 -t $(DESTDIR)$(LICENSEDIR) LICENSE-APACHE LICENSE-MIT packaging/LICENSE.dependencies

# Arch alone: elsewhere nothing would ever read it.
install-pacman:
	install -D -m 644 -t $(DESTDIR)$(ALPMDIR)/hooks packaging/pacman/kube-rebootd.hook
	install -D -m 755 -t $(DESTDIR)$(ALPMDIR)/scripts packaging/pacman/kube-rebootd

# What is checked in and follows from the code: manual pages, config.toml, completions, LICENSE.dependencies.
packaging:
	$(CARGO) run --locked --package xtask

# The test bed: a real control plane and real hosts on this machine. Needs root.
BED = target/debug/bed
TOOLS = $(or $(KUBE_REBOOTD_CACHE),/var/cache/kube-rebootd-bed)/tools

# With --workspace, crates get the features that all members ask for together, as in the tests: what is compiled for one
# serves the others. Of one member alone some twenty crates, tokio and kube among them, would be compiled twice.
.PHONY: $(BED)
$(BED):
	$(CARGO) build --locked --workspace --bin bed --bin demo --bin bench --bin matrix --bin kernel

prepare: $(BED)
	$(BED) prepare

# Hosts n1 to n$(HOSTS) in it, to play with.
HOSTS ?= 0

bed: $(BED) build
	$(BED) up --hosts $(HOSTS)

bed-down: $(BED)
	$(BED) down

# Three hosts with the real kubelet and containerd reboot one after another, told live and judged; DEMO="--keep"
# leaves the bed up, DEMO="--slots 2" lets two be down at once.
DEMO ?=

# Where this is new, Go builds Kubernetes and cargo the daemon at the same time: each ends in linking, which keeps one
# core busy. The daemon is built without optimisation, most of whose crates the bed shares: that takes two and a half
# minutes of CPU where the release takes eight.
demo: $(BED)
	$(BED) prepare --demo & $(CARGO) build --locked --workspace --bin kube-rebootd; built=$$?; wait $$! && exit $$built
	target/debug/demo --binary target/debug/kube-rebootd $(DEMO)

# What it costs and how quick it is, beside kubectl drain: a table, and target/bench.json. For a quiet machine.
# BENCH="--row idle --row drain" measures only these; target/debug/bench --help tells more.
BENCH ?=

bench: build $(BED)
	target/debug/bench --binary $(BINARY) $(BENCH)

# Every release of Kubernetes from 1.33 on, older kubelets, and other versions of systemd: a table. Each release is built
# once into the cache, which takes some five minutes. MATRIX="--row 1.33" tries one; MATRIX=--list names them.
MATRIX ?=

matrix: build $(BED) test-build
	target/debug/matrix $(MATRIX)

# The .deb on a virtual machine with a kernel, an initrd and firmware of its own; by hand or at night, as every boot takes a
# minute and more where QEMU cannot use KVM. KERNEL="--fixtures tests/kernel" keeps its journals for the parsers' tests.
KERNEL ?=

kernel: $(BED)
	$(BED) prepare --machine
	$(MAKE) deb
	target/debug/kernel --binary $(BINARY) $(KERNEL) dist/kube-rebootd_$(VERSION)-1_amd64.deb

# For everybody: no root, no Go, no host. Only root may give a file to somebody else, which three tests do.
WANT_ROOT = i14_what_others_could_change_is_refused_wherever_it_was_named \
  i14_nobody_else_can_open_the_lock_whoever_made_it i14_a_file_or_directory_of_somebody_else_is_refused_with_its_cure
NOTE = check: NOT RUN, as they want root ('make test' runs them): $(NOT_RUN)
NOT_RUN = $(if $(filter 0,$(shell id -u)),,$(WANT_ROOT))

# Built quickly, and so with more stack than a thread of the tests has by default.
QUICK = --config profile.test.package.kube-rebootd.opt-level=0 --config profile.test.package.kube-rebootd-core.opt-level=0

check: lint
	RUST_MIN_STACK=16777216 $(CARGO) test --locked --workspace --lib --bins $(QUICK) -- $(addprefix --skip ,$(NOT_RUN))
	@$(if $(NOT_RUN),echo "$(NOTE)",:)

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings

# Licences, duplicates, sources; and known holes, where the database of RustSec can be had, which is a repository on
# GitHub. cargo-deny is built once into the cache.
DENY = $(TOOLS)/bin/cargo-deny
ADVISORIES = $(or $(CARGO_HOME),$(HOME)/.cargo)/advisory-dbs

deny: $(DENY)
	$(DENY) --exclude-dev check bans licenses sources
	@$(DENY) --exclude-dev fetch db || \
	  echo "deny: the database of advisories (https://github.com/rustsec/advisory-db) cannot be fetched." >&2
	@if ls -d $(ADVISORIES)/*/crates >/dev/null 2>&1; then \
	  $(DENY) --exclude-dev check --disable-fetch advisories; \
	else \
	  echo "deny: ADVISORIES WERE NOT CHECKED: there is no copy of the database in $(ADVISORIES) either." >&2; \
	  echo "deny: run 'make deny' again where GitHub can be reached." >&2; \
	fi

$(TOOLS)/bin/cargo-deny:
	$(CARGO) install --locked --root $(TOOLS) cargo-deny@0.20.2

# Changes the core in every way that cargo-mutants knows, one at a time, and says which changes no unit test of it notices
# (docs/reliability.md). By hand: each takes half a minute of CPU, and there are thousands. MUTANTS="--file core/src/slot.rs"
# tries one file, MUTANTS="--shard 0/50" every fiftieth; MUTANTS=--list names them. cargo-mutants is built once into the
# cache; it works in a copy, and says more in target/mutants.out. Properties that set no number of cases have fewer.
MUTATE = $(TOOLS)/bin/cargo-mutants
MUTANTS ?=

# That some are not noticed (2) or never end (3) is a result.
mutants: $(MUTATE)
	@mkdir -p target
	RUST_MIN_STACK=16777216 PROPTEST_CASES=32 $(MUTATE) mutants --package kube-rebootd-core --output target --timeout 300 \
	  $(addprefix --cargo-arg=,--locked $(QUICK)) $(MUTANTS) -- --lib || { code=$$?; test $$code = 2 || test $$code = 3; }

$(MUTATE):
	$(CARGO) install --locked --root $(TOOLS) cargo-mutants@27.1.0

# What needs no host, no API server and no clock: it takes the CPU that hosts leave while they wait, and is printed when they
# are done. In a session of its own, so that it ends with the rest whatever happens.
ALONE = model:: simulator:: whole::
ALONE_LOG = target/alone.log

# Everything: lints, unit tests, the simulator, the real API server, real hosts; then what the whole suite asked of the
# API server. All that runs on the newest release of Kubernetes; what may differ between releases is tried after it on the
# oldest whose kubelet may be a node's of the newest. A test that fails keeps no other from being run, as a run is long; the
# bed goes down whatever happens: dash runs no trap of EXIT when a signal ends it, and so exits by itself. What must be
# there first is made two at a time: linking Kubernetes and the release keeps one core busy for minutes.
test:
	$(MAKE) -j2 prepare build lint test-build
	$(BED) down
	trap 'kill -- -$$alone 2>/dev/null; $(BED) down' EXIT; trap 'exit 1' INT TERM HUP; failed=0; \
	  $(CARGO) test --locked --no-fail-fast --workspace --lib --bins || failed=1; \
	  setsid nice -n 19 $(CARGO) test --locked --test it -- $(ALONE) >$(ALONE_LOG) 2>&1 & alone=$$!; \
	  $(BED) up || exit 1; \
	  $(CARGO) test --locked --no-fail-fast --workspace --test it --test bed -- \
	    --test-threads=$(THREADS) $(ALONE:%=--skip %) || failed=1; \
	  $(CARGO) test --locked --workspace --test packages || failed=1; \
	  $(CARGO) test --locked --test requests || failed=1; \
	  $(BED) down; \
	  target/debug/matrix --oldest || failed=1; \
	  wait $$alone || failed=1; alone=; cat $(ALONE_LOG); \
	  exit $$failed

test-build:
	$(CARGO) test --locked --workspace --no-run

# Hosts mostly wait; more threads than cores.
THREADS ?= 5

include packaging/packages.mk
