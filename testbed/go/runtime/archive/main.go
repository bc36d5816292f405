// Writes a program as an image that `ctr images import` reads: docker-archive, one layer, no registry.
//
//	archive PROGRAM NAME:TAG FILE
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "archive:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: archive PROGRAM NAME:TAG FILE")
	}
	program, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	name := filepath.Base(args[0])
	layer, err := packed(entry{name, 0o755, program})
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{"/" + name}},
		"rootfs": map[string]any{
			"type":     "layers",
			"diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))},
		},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config":   "config.json",
		"RepoTags": []string{args[1]},
		"Layers":   []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	image, err := packed(
		entry{"manifest.json", 0o644, manifest},
		entry{"config.json", 0o644, config},
		entry{"layer.tar", 0o644, layer},
	)
	if err != nil {
		return err
	}
	return os.WriteFile(args[2], image, 0o644)
}

type entry struct {
	name string
	mode int64
	data []byte
}

func packed(entries ...entry) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, one := range entries {
		header := tar.Header{Name: one.name, Mode: one.mode, Size: int64(len(one.data))}
		if err := writer.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(one.data); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}
