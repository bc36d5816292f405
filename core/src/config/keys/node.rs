//! `[node]`

use super::{CONTEXT as IN_KUBECONFIG, NODE_NAME, PATH, Word};

keys! {
    /// Which identity speaks for this host.
    section "node";

    /// The kubeconfig of this node's own identity.
    /// Empty: that of the running kubelet, then the places listed in kube-rebootd(8).
    /// It, every file and program that it names and every directory on the way there must belong to root and be writable by
    /// nobody else; otherwise it is not used.
    KUBECONFIG "kubeconfig": Word = Word { default: "", rule: PATH, optional: true };

    /// The context in it.
    /// Empty: its current context.
    CONTEXT "context": Word = Word { default: "", rule: IN_KUBECONFIG, optional: true };

    /// The Node's name, only for an identity that is not a node's own; refused when the API server says otherwise.
    NAME "name": Word = Word { default: "", rule: NODE_NAME, optional: true };
}
