// What hosts with a real container runtime need beside it: a pod's program, the archive it is imported from, and an
// OCI runtime for machines that lack what runc wants.
module kube-rebootd.test/runtime

go 1.26.0
