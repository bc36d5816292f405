# Packages, into dist/: `make rpm`, `make srpm`, `make arch`, `make deb` pack $(BINARY); `make dist` makes the
# tarballs of sources and of crates that a build without a network takes, `make rpm-from-source` is such a build. `make sysext`
# makes what needs no package manager, and of a program of its own.

VERSION := $(shell sed -n '0,/^version = "\(.*\)"/s//\1/p' Cargo.toml)
NAME = kube-rebootd-$(VERSION)
# The time in all that is packed: that of the last commit, or of an unpacked tarball's files. Not exported: with
# another one cargo would compile ring and all above it again.
TIME := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null),$(shell stat -c %Y CHANGELOG.md))
STAMPED = SOURCE_DATE_EPOCH=$(TIME)
WORK = $(CURDIR)/target/packaging
PACKAGER = The kube-rebootd authors <kube-rebootd@users.noreply.github.com>

.PHONY: dist dist-source rpm srpm rpm-from-source reproducible arch pkgbuild deb plugin sysext musl

# What git knows, as it is now; in a tarball's tree, all but what was built.
FILES = $(or $(shell git ls-files 2>/dev/null),$(shell find * -type f -not -path 'target/*' -not -path 'dist/*' -not -path 'vendor/*' | LC_ALL=C sort))
# One owner, one time, one order, no matter who packs.
TAR = tar --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s --mtime=@$(TIME) --sort=name --format=gnu

dist-source:
	mkdir -p dist
	# Whole or not at all: another make may be unpacking it.
	@$(TAR) --transform 's,^,$(NAME)/,' -cf - $(FILES) | gzip -9n >dist/$(NAME).tar.gz.$$$$ && \
	  mv dist/$(NAME).tar.gz.$$$$ dist/$(NAME).tar.gz

# The crates: vendor/, and the configuration that makes cargo take them. Those that Linux wants for the program and its
# unit tests; of all others that Cargo.lock names the manifest alone stays, as cargo insists on reading it.
dist: dist-source
	rm -rf $(WORK)/vendor
	mkdir -p $(WORK)/vendor/.cargo
	cd $(WORK)/vendor && $(CARGO) vendor --locked --quiet --versioned-dirs --manifest-path $(CURDIR)/Cargo.toml vendor
	CARGO=$(CARGO) sh packaging/linux-crates.sh $(WORK)/vendor/vendor
	# cargo prints this itself, but not with --quiet.
	printf '[source.crates-io]\nreplace-with = "vendored-sources"\n\n[source.vendored-sources]\ndirectory = "vendor"\n' \
	  >$(WORK)/vendor/.cargo/config.toml
	$(TAR) -C $(WORK)/vendor -cf - .cargo vendor | zstd -q -f -10 -T0 -o dist/$(NAME)-vendor.tar.zst
	rm -rf $(WORK)/vendor

# The same package from any directory, on any day.
RPMBUILD = $(STAMPED) rpmbuild --define "_topdir $(WORK)/rpm" --define "_sourcedir $(CURDIR)/dist" \
  --define "_buildhost reproducible" --define "use_source_date_epoch_as_buildtime 1" \
  --define "packager $(PACKAGER)" --define "clamp_mtime_to_source_date_epoch 1" --define "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm"
# Debian's rpm knows of no package that was not installed by rpm, and its brp-compress is written for bash.
DEBIAN = $(if $(wildcard /etc/debian_version),--nodeps --define "__brp_compress bash %{_rpmconfigdir}/brp-compress %{_prefix}")

rpm: build dist-source
	rm -rf $(WORK)/rpm
	mkdir -p $(WORK)/rpm
	cp rpm.spec $(WORK)/rpm/kube-rebootd.spec
	$(RPMBUILD) --target $(MACHINE) $(DEBIAN) --with prebuilt --define "prebuilt $(abspath $(BINARY))" --define "_rpmdir $(CURDIR)/dist" -bb $(WORK)/rpm/kube-rebootd.spec

# Its name ends with %{?dist}, which differs between distributions: the one that is made is the only one.
srpm: dist
	rm -rf $(WORK)/rpm dist/$(NAME)-1*.src.rpm
	mkdir -p $(WORK)/rpm
	cp rpm.spec $(WORK)/rpm/kube-rebootd.spec
	$(RPMBUILD) --define "_srcrpmdir $(CURDIR)/dist" -bs $(WORK)/rpm/kube-rebootd.spec

# From the source package alone, without a network: compiles everything.
rpm-from-source: srpm
	$(RPMBUILD) $(DEBIAN) --define "_rpmdir $(CURDIR)/dist" --rebuild dist/$(NAME)-1*.src.rpm

# The program is the same from any directory only where rustc was told to leave these out of it, as the build from
# the source package does. By hand, as it compiles everything twice: two directories, one program, one package.
reproducible: srpm
	rm -rf $(WORK)/one $(WORK)/another-one
	for place in one another-one; do \
	  $(RPMBUILD) $(DEBIAN) --without tests --define "_topdir $(WORK)/$$place" --define "_rpmdir $(WORK)/$$place" \
	    --rebuild dist/$(NAME)-1*.src.rpm || exit; \
	done
	cmp $(WORK)/one/$(NAME)-1*.$(MACHINE).rpm $(WORK)/another-one/$(NAME)-1*.$(MACHINE).rpm
	rm -rf $(WORK)/one $(WORK)/another-one

# PKGBUILD with the checksum of the tarball that lies beside it: what a release publishes.
pkgbuild: dist-source
	sum=$$(sha256sum dist/$(NAME).tar.gz) && \
	  sed "s/^sha256sums=('0*')/sha256sums=('$${sum%% *}')/" PKGBUILD >dist/PKGBUILD
	cp packaging/pacman/kube-rebootd.install dist/

# makepkg writes its directories into the package: the same one only from the same path.
ARCH_DIR = /var/tmp/kube-rebootd-makepkg
# makepkg does not run as root.
AS_BUILDER = $(if $(filter 0,$(shell id -u)),runuser -u nobody --)

arch: build pkgbuild
	rm -rf $(ARCH_DIR)
	mkdir -m 755 $(ARCH_DIR)
	cp dist/PKGBUILD dist/kube-rebootd.install dist/$(NAME).tar.gz $(ARCH_DIR)
	install -m 755 $(BINARY) $(ARCH_DIR)/kube-rebootd
	$(if $(AS_BUILDER),chown -R nobody $(ARCH_DIR))
	cd $(ARCH_DIR) && $(AS_BUILDER) env $(STAMPED) HOME=$(ARCH_DIR) CARCH=$(MACHINE) PACKAGER="$(PACKAGER)" PKGEXT=.pkg.tar.zst KUBE_REBOOTD_BINARY=$(ARCH_DIR)/kube-rebootd \
	  makepkg --nodeps --force --noconfirm
	mkdir -p dist
	cp $(ARCH_DIR)/$(NAME)-*.pkg.tar.* dist/
	rm -rf $(ARCH_DIR)

# Debian keeps the licences beside the documentation.
deb: build $(TOOLS)/bin/cargo-deb
	rm -rf target/packaging/stage
	$(MAKE) install DESTDIR=$(CURDIR)/target/packaging/stage PREFIX=/usr BINARY=$(BINARY) LICENSEDIR=/usr/share/doc/kube-rebootd
	# Debian has the one, and wants the other in the file copyright.
	rm target/packaging/stage/usr/share/doc/kube-rebootd/LICENSE-APACHE target/packaging/stage/usr/share/doc/kube-rebootd/LICENSE-MIT
	gzip -9n <CHANGELOG.md >target/packaging/stage/usr/share/doc/kube-rebootd/changelog.gz
	rm target/packaging/stage/usr/share/doc/kube-rebootd/CHANGELOG.md
	mkdir -p dist
	$(STAMPED) $(TOOLS)/bin/cargo-deb $(CROSS) --no-build --no-strip --output $(CURDIR)/dist/

# xz comes from the machine; it packs once a day and need not be quick itself.
$(TOOLS)/bin/cargo-deb:
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	  $(CARGO) install --locked --no-default-features --root $(TOOLS) cargo-deb@3.8.0

# kubectl's plugin for any Linux: the program without a library beside it, as a tarball, and krew's manifest of it. By hand, as all
# crates are compiled once more. glibc (2.34 and newer) resolves names in it by /etc/hosts and DNS, whatever else nsswitch.conf has.
STATIC = $(or $(TARGET),$(MACHINE)-unknown-linux-gnu)
GOARCH = $(patsubst aarch64,arm64,$(patsubst x86_64,amd64,$(MACHINE)))
PLUGIN = kubectl-rebootd-$(VERSION)-linux-$(GOARCH).tar.gz

plugin:
	$(LINKER) RUSTFLAGS="$(RUSTFLAGS) -C target-feature=+crt-static" $(CARGO) build --release --locked --target $(STATIC) \
	  --target-dir target/static --bin kube-rebootd
	rm -rf $(WORK)/plugin
	install -D -m 755 target/static/$(STATIC)/release/kube-rebootd $(WORK)/plugin/kubectl-rebootd
	# It would end here if it wanted a library: the program's own loader is in it.
	@if readelf --program-headers $(WORK)/plugin/kubectl-rebootd | grep -q INTERP; then \
	  echo "plugin: the program wants a dynamic loader; it was to be static" >&2; exit 1; fi
	install -m 644 -t $(WORK)/plugin LICENSE-APACHE LICENSE-MIT packaging/LICENSE.dependencies
	mkdir -p dist
	$(TAR) -C $(WORK)/plugin -cf - . | gzip -9n >dist/$(PLUGIN)
	sum=$$(sha256sum dist/$(PLUGIN)) && sed -e "s/@SHA256@/$${sum%% *}/" -e 's/@VERSION@/$(VERSION)/g' -e 's/@ARCH@/$(GOARCH)/g' \
	  packaging/krew/rebootd.yaml >dist/rebootd.yaml

# For systems whose /usr nobody writes: a system extension (squashfs), and the same for /opt (a tarball). Their one program
# rests on no library of the host; it is made for musl, as glibc's names and users may come from libraries even where it is
# static. ring wants musl's C compiler (Debian: musl-tools, which has none for another architecture), Rust its library for musl.
MUSL = $(MACHINE)-unknown-linux-musl
MUSL_RELEASE = target/$(MUSL)/release/kube-rebootd
# What is packed; another one than $(MUSL_RELEASE) is not built here.
MUSL_BINARY = $(MUSL_RELEASE)
# Architectures as systemd calls them.
SYSTEMD_MACHINE = $(patsubst aarch64,arm64,$(patsubst x86_64,x86-64,$(MACHINE)))
SYSEXT = $(NAME)-$(SYSTEMD_MACHINE).raw
PORTABLE = $(NAME)-$(MACHINE)-linux-musl.tar.gz
OPT = /opt/kube-rebootd

.PHONY: $(MUSL_RELEASE) musl-library
$(MUSL_RELEASE): musl-library
	$(CARGO) build --release --locked --target $(MUSL) --bin kube-rebootd

musl-library:
	@test '$(MACHINE)' = "$$(uname -m)" || { \
	  echo "sysext: for another machine it is made on such a one: there is no C compiler for its musl here" >&2; exit 1; }
	@command -v musl-gcc >/dev/null || { echo "sysext: musl-gcc is wanted (Debian: musl-tools)" >&2; exit 1; }
	@test -d "$$(rustc --print target-libdir --target $(MUSL))" || { command -v rustup >/dev/null && rustup target add $(MUSL); } || { \
	  echo "sysext: Rust has no library for $(MUSL): 'rustup target add' it, or rust-std-static-$(MUSL) on Fedora" >&2; exit 1; }

# The same program made quickly, for the tests: with --workspace, as the bed is.
musl: musl-library
	CARGO_PROFILE_DEV_STRIP=symbols $(CARGO) build --locked --workspace --target $(MUSL) --bin kube-rebootd

# Its configuration is the distributor's; what an administrator writes to /etc counts before it. The boot check stays out: PID 1
# plans a boot before extensions are merged, and would call each boot bad in which it does not find the unit. Nothing enables
# the daemon (kube-rebootd-sysext.service, in its examples, does where somebody asks for it).
SYSEXT_TREE = $(WORK)/sysext
SYSEXT_RELEASE = $(SYSEXT_TREE)/usr/lib/extension-release.d/extension-release.kube-rebootd

sysext: $(MUSL_BINARY)
	@if readelf --program-headers $(MUSL_BINARY) | grep -q INTERP; then \
	  echo "sysext: the program wants a dynamic loader; it was to be static" >&2; exit 1; fi
	@mksquashfs -version | grep -Eq 'version (4\.([6-9]|[1-9][0-9])|[5-9])' || { \
	  echo "sysext: mksquashfs 4.6 or newer is wanted (Debian 13 has it): older ones take no labels from a file" >&2; exit 1; }
	rm -rf $(SYSEXT_TREE) $(WORK)/portable $(WORK)/portable.tar $(WORK)/sysext.labels
	$(MAKE) install DESTDIR=$(SYSEXT_TREE) PREFIX=/usr SYSCONFDIR=/usr/lib BINARY=$(MUSL_BINARY)
	rm -r $(SYSEXT_TREE)/var $(SYSEXT_TREE)/usr/lib/systemd/system/kube-rebootd-boot-ok.service
	install -d $(dir $(SYSEXT_RELEASE))
	printf 'ID=_any\nARCHITECTURE=$(SYSTEMD_MACHINE)\nEXTENSION_RELOAD_MANAGER=1\n' >$(SYSEXT_RELEASE)
	chmod -R u=rwX,go=rX,a-s $(SYSEXT_TREE)
	sh packaging/sysext/labels.sh $(SYSEXT_TREE) >$(WORK)/sysext.labels
	mkdir -p dist
	rm -f dist/$(SYSEXT)
	# The tree has labels of its own on a machine with SELinux: those of the list count alone.
	unset SOURCE_DATE_EPOCH; mksquashfs $(SYSEXT_TREE) dist/$(SYSEXT) -noappend -quiet -no-progress -all-root -root-mode 755 \
	  -xattrs-exclude '.*' -mkfs-time $(TIME) -all-time $(TIME) -comp gzip -pf $(WORK)/sysext.labels
	$(MAKE) install DESTDIR=$(WORK)/portable PREFIX=$(OPT) SYSCONFDIR=$(OPT)/share BINARY=$(MUSL_BINARY) \
	  UNITDIR=$(OPT)/etc/systemd/system TMPFILESDIR=$(OPT)/etc/tmpfiles.d STATEDIR=$(OPT)/state
	rm -r $(WORK)/portable$(OPT)/state $(WORK)/portable$(OPT)/lib
	mv $(WORK)/portable$(OPT)/share/kube-rebootd/config.toml $(WORK)/portable$(OPT)/share/doc/kube-rebootd/
	rm -r $(WORK)/portable$(OPT)/share/kube-rebootd
	install -d $(WORK)/portable$(OPT)/etc/dbus-1
	mv $(WORK)/portable$(OPT)/share/dbus-1/system.d $(WORK)/portable$(OPT)/etc/dbus-1/
	sed -i 's,/usr/bin/kube-rebootd,$(OPT)/bin/kube-rebootd,' $(WORK)/portable$(OPT)/etc/systemd/system/*
	$(TAR) -C $(WORK)/portable/opt -cf $(WORK)/portable.tar kube-rebootd
	gzip -9n <$(WORK)/portable.tar >dist/$(PORTABLE)
