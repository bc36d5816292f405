# kube-rebootd: `make demo` shows the main job, `make test` runs everything.
.PHONY: build
build:
	cargo build --release
