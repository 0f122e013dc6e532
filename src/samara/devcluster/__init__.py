"""A real local control plane (etcd, kube-apiserver, kube-controller-manager) for tests, demos and benchmarks."""

from samara.devcluster.arguments import DevclusterOptions
from samara.devcluster.binaries import Binaries, find
from samara.devcluster.cluster import Devcluster
from samara.devcluster.errors import DevclusterError

__all__ = ["Binaries", "Devcluster", "DevclusterError", "DevclusterOptions", "find"]
