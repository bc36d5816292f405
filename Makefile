# kube-rebootd: `make demo` shows the main job, `make test` runs everything.

CARGO ?= cargo
DESTDIR ?=
PREFIX ?= /usr
BINARY = target/release/kube-rebootd

.PHONY: all build install demo test lint deny bed bed-down prepare clean

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
	install -D -m 644 packaging/config.toml $(DESTDIR)/etc/kube-rebootd/config.toml
	install -d -m 755 $(DESTDIR)/etc/kube-rebootd/config.d
	install -d -m 755 $(DESTDIR)$(PREFIX)/share/doc/kube-rebootd/kubernetes
	install -m 644 kubernetes/*.yaml $(DESTDIR)$(PREFIX)/share/doc/kube-rebootd/kubernetes/

# The test bed (testbed/): a control plane and hosts in namespaces of their own. Needs root.
BED = $(CARGO) run --quiet --locked --package testbed --bin bed --
BED_NAME ?= test
HOSTS ?= 0

prepare:
	$(BED) prepare

bed:
	$(BED) up --name $(BED_NAME) --hosts $(HOSTS)

bed-down:
	$(BED) down --name $(BED_NAME)
