// The node's part of a CSI driver: volumes are memory, and each is let go as slowly as it is told. With -attach it is
// the other part, which says of every VolumeAttachment that it is done.
package main

import (
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	storage "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	// Where the kubelet looks for sockets of plugins, and where they have their own.
	registry = "/var/lib/kubelet/plugins_registry"
	plugins  = "/var/lib/kubelet/plugins"
	// How often VolumeAttachments are looked at.
	look = 200 * time.Millisecond
)

func main() {
	klog.InitFlags(nil)
	driver := flag.String("driver", "csi.bed", "name of the driver")
	name := flag.String("node", "", "name of the Node")
	slow := flag.Duration("slow", 0, "how long NodeUnpublishVolume takes")
	attach := flag.String("attach", "", "kubeconfig: attach what the controllers ask for")
	flag.Parse()
	var err error
	if *attach != "" {
		err = attacher(context.Background(), *attach, *driver)
	} else {
		err = serve(&plugin{driver: *driver, node: *name, slow: *slow})
	}
	klog.ErrorS(err, "csi ended")
	os.Exit(1)
}

type plugin struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	driver string
	node   string
	slow   time.Duration
}

func (own *plugin) socket() string {
	return filepath.Join(plugins, own.driver, "csi.sock")
}

func serve(own *plugin) error {
	ended := make(chan error, 2)
	for _, path := range []string{own.socket(), filepath.Join(registry, own.driver+"-reg.sock")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		listener, err := net.Listen("unix", path)
		if err != nil {
			return err
		}
		server := grpc.NewServer()
		csi.RegisterIdentityServer(server, own)
		csi.RegisterNodeServer(server, own)
		registration.RegisterRegistrationServer(server, own)
		go func() { ended <- server.Serve(listener) }()
	}
	return <-ended
}

func (own *plugin) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: own.driver, Endpoint: own.socket(), SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (*plugin) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	klog.InfoS("registered", "done", status.PluginRegistered, "error", status.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

func (own *plugin) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: own.driver, VendorVersion: "1"}, nil
}

func (*plugin) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (own *plugin) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: own.node}, nil
}

func (*plugin) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (own *plugin) NodePublishVolume(_ context.Context, asked *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := os.MkdirAll(asked.TargetPath, 0o755); err != nil {
		return nil, err
	}
	err := unix.Mount(own.driver, asked.TargetPath, "tmpfs", 0, "size=1m")
	klog.InfoS("published", "volume", asked.VolumeId, "error", err)
	return &csi.NodePublishVolumeResponse{}, err
}

func (own *plugin) NodeUnpublishVolume(_ context.Context, asked *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	klog.InfoS("unpublishing", "volume", asked.VolumeId)
	time.Sleep(own.slow)
	if err := unix.Unmount(asked.TargetPath, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	err := os.RemoveAll(asked.TargetPath)
	klog.InfoS("unpublished", "volume", asked.VolumeId, "error", err)
	return &csi.NodeUnpublishVolumeResponse{}, err
}

func attacher(ctx context.Context, kubeconfig, driver string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	attachments := client.StorageV1().VolumeAttachments()
	for {
		list, err := attachments.List(ctx, metav1.ListOptions{})
		if err != nil {
			klog.ErrorS(err, "cannot list VolumeAttachments")
		} else {
			for _, one := range list.Items {
				if one.Spec.Attacher != driver || one.Status.Attached {
					continue
				}
				if err := attached(ctx, client, one); err != nil {
					klog.ErrorS(err, "cannot attach", "attachment", one.Name)
				}
			}
		}
		time.Sleep(look)
	}
}

// Says that a volume is attached. Nothing holds what is deleted, which is detached by that.
func attached(ctx context.Context, client *clientset.Clientset, one storage.VolumeAttachment) error {
	klog.InfoS("attached", "volume", one.Spec.Source.PersistentVolumeName, "node", one.Spec.NodeName)
	_, err := client.StorageV1().VolumeAttachments().Patch(ctx, one.Name, types.MergePatchType,
		[]byte(`{"status":{"attached":true}}`), metav1.PatchOptions{}, "status")
	return err
}
