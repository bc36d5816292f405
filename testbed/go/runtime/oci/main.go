// The OCI runtime of hosts whose outer machine lacks cgroup controllers or CAP_SYS_RESOURCE: takes out of a
// container's configuration what runc could not do there, and becomes runc. Containers are scopes of systemd as on
// every node, so that a shutdown stops them as it does there.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const runc = "/usr/sbin/runc"

func main() {
	if bundle, creates := created(os.Args[1:]); creates {
		if err := soften(filepath.Join(bundle, "config.json")); err != nil {
			fmt.Fprintln(os.Stderr, "oci:", err)
			os.Exit(1)
		}
	}
	err := syscall.Exec(runc, append([]string{"runc"}, os.Args[1:]...), os.Environ())
	fmt.Fprintln(os.Stderr, "oci: cannot become runc:", err)
	os.Exit(1)
}

// The bundle of a container that this call creates.
func created(args []string) (string, bool) {
	creates, bundle := false, "."
	for at, arg := range args {
		switch {
		case arg == "create" || arg == "run":
			creates = true
		case (arg == "--bundle" || arg == "-b") && at+1 < len(args):
			bundle = args[at+1]
		case strings.HasPrefix(arg, "--bundle="):
			bundle = strings.TrimPrefix(arg, "--bundle=")
		}
	}
	return bundle, creates
}

// Removes limits that need controllers or CAP_SYS_RESOURCE.
func soften(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		return err
	}
	linux, found := spec["linux"].(map[string]any)
	if !found {
		return errors.New(path + " has no linux")
	}
	if resources, found := linux["resources"].(map[string]any); found {
		// The rules for devices are no controller's.
		linux["resources"] = map[string]any{"devices": resources["devices"]}
	}
	linux["cgroupsPath"] = "kubepods.slice:cri-containerd:" + filepath.Base(filepath.Dir(path))
	if process, found := spec["process"].(map[string]any); found {
		delete(process, "rlimits")
		if score, found := process["oomScoreAdj"].(float64); found && score < 0 {
			process["oomScoreAdj"] = 0
		}
	}
	text, err = json.Marshal(spec)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
