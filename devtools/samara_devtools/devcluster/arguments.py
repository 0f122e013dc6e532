"""The options of a control plane, and the command lines and audit policy that follow from them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVICE_RANGE = "10.96.0.0/16"
SERVICE_IP = "10.96.0.1"
ISSUER = "https://kubernetes.default.svc.cluster.local"
CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "resourcequota-controller",
    "clusterrole-aggregation-controller",
    "root-ca-certificate-publisher-controller",
)


@dataclass(frozen=True, slots=True)
class DevclusterOptions:
    """How a control plane differs from the default one."""

    audit: bool = True
    audit_secret_bodies: bool = False
    """Record the bodies of requests and answers for Secrets."""
    audit_bodies: bool = False
    """Record the request bodies of all writes."""
    controllers: bool = True
    """Start kube-controller-manager."""
    apiserver_args: tuple[str, ...] = ()
    etcd_args: tuple[str, ...] = ()
    apiserver_port: int | None = None
    controller_manager_qps: int = 500


@dataclass(frozen=True, slots=True)
class Files:
    """The paths of one control plane below its data folder."""

    data: Path

    @property
    def ca(self) -> Path:
        return self.data / "ca.crt"

    @property
    def server_certificate(self) -> Path:
        return self.data / "apiserver.crt"

    @property
    def server_key(self) -> Path:
        return self.data / "apiserver.key"

    @property
    def admin_certificate(self) -> Path:
        return self.data / "admin.crt"

    @property
    def admin_key(self) -> Path:
        return self.data / "admin.key"

    @property
    def token_key(self) -> Path:
        return self.data / "tokens.key"

    @property
    def token_public_key(self) -> Path:
        return self.data / "tokens.pub"

    @property
    def admin_kubeconfig(self) -> Path:
        return self.data / "kubeconfig"

    @property
    def controllers_kubeconfig(self) -> Path:
        return self.data / "kubeconfig-controllers"

    @property
    def audit_policy(self) -> Path:
        return self.data / "audit-policy.yaml"

    @property
    def audit_log(self) -> Path:
        return self.data / "audit.log"


def etcd(files: Files, client: str, peer: str, options: DevclusterOptions) -> list[str]:
    return [
        f"--name={files.data.name}",
        f"--data-dir={files.data / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster={files.data.name}={peer}",
        "--unsafe-no-fsync",  # the data is thrown away with the cluster
        "--heartbeat-interval=10",  # a single member elects itself; with the defaults it would first wait half a second
        "--election-timeout=100",
        "--log-level=warn",
        *options.etcd_args,
    ]


def apiserver(files: Files, etcd_url: str, port: int, options: DevclusterOptions) -> list[str]:
    return [
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        "--endpoint-reconciler-type=none",  # a loopback address is not a legal endpoint
        f"--tls-cert-file={files.server_certificate}",
        f"--tls-private-key-file={files.server_key}",
        f"--client-ca-file={files.ca}",
        "--authorization-mode=RBAC",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={files.token_public_key}",
        f"--service-account-signing-key-file={files.token_key}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--allow-privileged=true",
        "--shutdown-watch-termination-grace-period=1s",  # otherwise open watches delay its end by a minute
        *(_audit(files) if options.audit else ()),
        *options.apiserver_args,
    ]


def controller_manager(files: Files, options: DevclusterOptions) -> list[str]:
    return [
        f"--kubeconfig={files.controllers_kubeconfig}",
        f"--controllers={','.join(CONTROLLERS)}",
        f"--root-ca-file={files.ca}",
        "--leader-elect=false",
        "--use-service-account-credentials=false",
        "--secure-port=0",
        f"--kube-api-qps={options.controller_manager_qps}",
        f"--kube-api-burst={2 * options.controller_manager_qps}",
        "--concurrent-namespace-syncs=50",
        "--concurrent-gc-syncs=50",
        "--concurrent-resource-quota-syncs=20",
    ]


def _audit(files: Files) -> tuple[str, ...]:
    # Blocking: an event is in the file before the client has its answer. Size 0: never rotated under a reader.
    return (
        f"--audit-policy-file={files.audit_policy}",
        f"--audit-log-path={files.audit_log}",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=0",
    )


def audit_policy(options: DevclusterOptions) -> dict[str, Any]:
    """Records every request when it is answered, including reads, but not health probes."""
    secrets = {"level": "RequestResponse", "resources": [{"group": "", "resources": ["secrets"]}]}
    others = {"level": "Request", "verbs": ["create", "update", "patch", "delete"]}
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
            *([secrets] if options.audit_secret_bodies else []),
            *([others] if options.audit_bodies else []),
            {"level": "Metadata"},
        ],
    }
