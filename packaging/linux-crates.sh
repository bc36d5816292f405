#!/bin/sh
# Usage: linux-crates.sh VENDOR
# Leaves in VENDOR, which `cargo vendor --versioned-dirs` made, the crates that kube-rebootd is built from on Linux and
# those that its unit tests want. Cargo resolves all of Cargo.lock, also what is for other systems or for the test
# bed: of these crates the manifest stays, with an empty library, and with a checksum file that lists nothing but the
# crate's own checksum, which Cargo.lock has.
set -e

# Without the test bed, features that it alone wants are not counted.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
for file in src/main.rs src/lib.rs core/src/lib.rs garble/src/lib.rs outdated/src/lib.rs tests/it/main.rs; do
  mkdir -p "$tree/${file%/*}"
  : >"$tree/$file"
done
for crate in core garble outdated; do
  cp "$crate/Cargo.toml" "$tree/$crate"
done
sed -e '/^testbed = /d' -e '/^members = /d' Cargo.toml >"$tree/Cargo.toml"
cp Cargo.lock "$tree"
${CARGO:-cargo} tree --quiet --workspace --manifest-path "$tree/Cargo.toml" --edges normal,build,dev --prefix none --format '{p}' \
  --target x86_64-unknown-linux-gnu --target aarch64-unknown-linux-gnu |
  sed -n 's/^\([^ ]*\) v\([^ ]*\).*/\1-\2/p' | sort -u >"$tree/wanted"

for crate in "$1"/*; do
  if ! grep -qxF -e "${crate##*/}" "$tree/wanted"; then
    find "$crate" -mindepth 1 -maxdepth 1 ! -name Cargo.toml ! -name .cargo-checksum.json -exec rm -rf {} +
    mkdir "$crate/src"
    : >"$crate/src/lib.rs"
    sed -i 's/"files":{[^}]*}/"files":{}/' "$crate/.cargo-checksum.json"
  fi
done
