"""A real local control plane (etcd, kube-apiserver, kube-controller-manager) for tests, demos and benchmarks."""

from samara_devtools.devcluster.arguments import DevclusterOptions
from samara_devtools.devcluster.binaries import Binaries, find
from samara_devtools.devcluster.cluster import Devcluster
from samara_devtools.devcluster.errors import DevclusterError

__all__ = ["Binaries", "Devcluster", "DevclusterError", "DevclusterOptions", "find"]
