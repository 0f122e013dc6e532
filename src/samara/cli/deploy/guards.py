"""What the API server is told about admission, and whose certificate it sees."""

from __future__ import annotations

from samara.admission.configuration import PATHS, SERVICE, configuration, needed
from samara.cli.deploy.base import Installation, Json
from samara.core.table import Table
from samara.core.want import Dialect
from samara.vocabularies import CERTIFICATE

ISSUING = "cert-manager.io/v1"


def configurations(of: Installation, dialects: tuple[Dialect, ...]) -> list[Json]:
    """Without `caBundle`, which the operator writes. An operator that only observes answers nobody."""
    if of.observe:
        return []
    return [
        configuration(Table(dialects), of.endpoint.client_config(PATHS[kind], b""), (of.namespace,), kind)
        for kind in needed(dialects)
    ]


def certificate(of: Installation) -> list[Json]:
    """cert-manager's: an authority that signs itself, and a certificate for the name of the Service."""
    issuer = of.object(ISSUING, "Issuer", SERVICE, spec={"selfSigned": {}})
    names = [f"{SERVICE}.{of.namespace}.svc", f"{SERVICE}.{of.namespace}.svc.cluster.local"]
    spec = {
        "secretName": CERTIFICATE,
        "dnsNames": names,
        "issuerRef": {"kind": "Issuer", "name": SERVICE},
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
    }
    return [issuer, of.object(ISSUING, "Certificate", SERVICE, spec=spec)]
