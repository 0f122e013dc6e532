"""kubectl's flags laid over what a kubeconfig says, by kubectl's own rules."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from samara.kube import kubeconfig as kc
from samara.kube.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the flags say; empty means that nothing was said."""

    cluster: str = ""
    user: str = ""
    server: str = ""
    certificate_authority: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    client_certificate: str = ""
    client_key: str = ""
    token: str = field(default="", repr=False)
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: tuple[str, ...] = ()

    @property
    def beside_a_pod(self) -> list[str]:
        """The flags that mean nothing to a pod's own account."""
        said = {
            "--cluster": self.cluster,
            "--user": self.user,
            "--certificate-authority": self.certificate_authority,
            "--insecure-skip-tls-verify": self.insecure_skip_tls_verify,
            "--tls-server-name": self.tls_server_name,
            "--client-certificate": self.client_certificate,
            "--client-key": self.client_key,
        }
        return [flag for flag, value in said.items() if value]


NONE = Overrides()


def choose(config: kc.Kubeconfig | None, context: str | None, flags: Overrides) -> kc.Chosen:
    """The context with the flags laid over it; with --server a context is not needed."""
    if flags.server and (config is None or not (context or config.current)):
        entry = kc.Entry("the flags", Path.cwd() / "flags", {})
        return _laid_over(kc.Chosen("", "", kc.Cluster(), entry, kc.User(), entry), flags)
    assert config is not None
    return _laid_over(kc.choose(config, context, flags.cluster, flags.user), flags)


def _laid_over(chosen: kc.Chosen, flags: Overrides) -> kc.Chosen:
    return replace(chosen, cluster=_cluster(chosen.cluster, flags), user=user(chosen.user, flags))


def _cluster(cluster: kc.Cluster, flags: Overrides) -> kc.Cluster:
    changed = {"server": flags.server} if flags.server else {}
    if flags.server or flags.tls_server_name:  # the name in the kubeconfig is that of another server
        changed["tls_server_name"] = flags.tls_server_name
    found = msgspec.structs.replace(cluster, **changed)
    if not (flags.certificate_authority or flags.insecure_skip_tls_verify):
        return found
    return msgspec.structs.replace(
        found,
        insecure_skip_tls_verify=flags.insecure_skip_tls_verify,
        certificate_authority=_from_here(flags.certificate_authority),
        certificate_authority_data="",
    )


def user(user: kc.User, flags: Overrides) -> kc.User:
    """A token on the command line is meant: what would go before it at the server is left out."""
    if flags.token:
        user = kc.User(
            token=flags.token,
            as_=user.as_,
            as_uid=user.as_uid,
            as_groups=user.as_groups,
            as_user_extra=user.as_user_extra,
        )
    changed: dict[str, object] = {}
    for name in ("client_certificate", "client_key"):
        if path := getattr(flags, name):
            changed |= {name: _from_here(path), f"{name}_data": ""}
    if flags.as_uid:
        changed["as_uid"] = flags.as_uid
    if flags.as_groups:
        changed["as_groups"] = flags.as_groups
    if flags.as_user_extra:
        changed["as_user_extra"] = _extra(flags.as_user_extra)
    return msgspec.structs.replace(user, **changed)


def _extra(pairs: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise ConfigError(f"--as-user-extra: expected KEY=VALUE, found {pair!r}")
        found[key] = (*found.get(key, ()), value)
    return found


def _from_here(path: str) -> str:
    """A path in a flag counts from where the person is, not from the kubeconfig's folder."""
    return str(Path(path).absolute()) if path else ""
