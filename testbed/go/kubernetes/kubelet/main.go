// The kubelet of a host of the test bed: the real kubelet code with a fake container runtime, as kubemark
// runs it (k8s.io/kubernetes/pkg/kubemark), but it tells the host's boot ID and when a pod is ready, as every real
// kubelet does.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"go.opentelemetry.io/otel/trace/noop"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	cri "k8s.io/cri-client/pkg"
	fakecri "k8s.io/cri-client/pkg/fake"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/cluster/ports"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
)

const (
	// Of the fake runtime, which answers at once.
	runtimeTimeout = 15 * time.Second
	// The kubelet's own default.
	maxPods = 110
	// No host of a bed should wait for its own throttle.
	qps, burst = 50, 100
)

// machine is the fake one of the kubelet's own tests, of this boot.
type machine struct {
	cadvisortest.Fake
	bootID string
}

func (m *machine) MachineInfo(logger klog.Logger) (*cadvisorapi.MachineInfo, error) {
	info, err := m.Fake.MachineInfo(logger)
	if err == nil {
		info.BootID = m.bootID
	}
	return info, err
}

func main() {
	klog.InitFlags(nil)
	name := flag.String("name", "", "name of the Node")
	kubeconfig := flag.String("kubeconfig", "", "the node's own credential")
	labels := flag.String("node-labels", "", "labels of the Node, k=v,k=v")
	bootID := flag.String("boot-id", "/proc/sys/kernel/random/boot_id", "file with the boot ID; empty: tell none, as kubemark")
	flag.Parse()
	if err := run(context.Background(), *name, *kubeconfig, *labels, *bootID); err != nil {
		klog.ErrorS(err, "the kubelet ended")
		os.Exit(1)
	}
}

func run(ctx context.Context, name, kubeconfig, labels, bootID string) error {
	host := &machine{Fake: cadvisortest.Fake{NodeName: name}}
	if bootID != "" {
		text, err := os.ReadFile(bootID)
		if err != nil {
			return err
		}
		host.bootID = strings.TrimSpace(string(text))
	}
	own, err := labelled(labels)
	if err != nil {
		return err
	}
	flags, config := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{
		NodeName:            name,
		KubeletPort:         ports.KubeletPort,
		KubeletReadOnlyPort: ports.KubeletReadOnlyPort,
		MaxPods:             maxPods,
		NodeLabels:          own,
	})
	// A heartbeat that hangs must not outlast the next one.
	client, heartbeat, err := clients(kubeconfig, config.NodeStatusUpdateFrequency.Duration)
	if err != nil {
		return err
	}
	endpoint, err := fakecri.GenerateEndpoint()
	if err != nil {
		return err
	}
	runtime := fakecri.NewFakeRemoteRuntime()
	if err := runtime.Start(endpoint); err != nil {
		return err
	}
	defer runtime.Stop()
	service, err := cri.NewRemoteRuntimeService(ctx, endpoint, runtimeTimeout, noop.NewTracerProvider(), false)
	if err != nil {
		return err
	}
	hollow := kubemark.NewHollowKubelet(flags, config, client, heartbeat, host, runtime.ImageService, service,
		cm.NewStubContainerManager())
	// The fake one says that a container is ready before it runs. A pod that is Pending and Ready at once counts for a
	// disruption budget, and is evicted without asking that budget: it falls below its number. Without one the kubelet
	// makes its own.
	hollow.KubeletDeps.ProbeManager = nil
	hollow.Run(ctx)
	return errors.New("it should run for ever")
}

func labelled(text string) (map[string]string, error) {
	labels := map[string]string{}
	for _, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return nil, errors.New("--node-labels: no value in " + pair)
		}
		labels[key] = value
	}
	return labels, nil
}

func clients(kubeconfig string, patience time.Duration) (*clientset.Clientset, *clientset.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.UserAgent = "bed-kubelet"
	config.QPS, config.Burst = qps, burst
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	config.Timeout = patience
	config.QPS = -1
	heartbeat, err := clientset.NewForConfig(config)
	return client, heartbeat, err
}
