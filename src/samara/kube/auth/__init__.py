"""How to reach the API server: from flags, kubeconfig files, or the pod's service account."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from ssl import SSLContext
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

import msgspec

from samara.kube.auth import kubeconfig as kc
from samara.kube.auth import tls
from samara.kube.auth.credentials import Credentials, Fixed, Impersonating, TokenFile, bearer, read_token
from samara.kube.auth.exec_plugin import Exec, ExecCredentials, checked_plugin
from samara.kube.errors import ConfigError

__all__ = ["SERVICE_ACCOUNT", "Access", "Credentials", "load"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Access:
    """Everything that a connection needs. The headers of `credentials` include those for impersonation."""

    server: str
    namespace: str = field(repr=False)
    ssl: SSLContext | None = field(repr=False)
    server_hostname: str | None = field(repr=False)
    proxy: str | None = field(repr=False)
    credentials: Credentials = field(repr=False)
    context: str
    in_cluster: bool = field(repr=False, default=False)
    authority: Path | None = field(repr=False, default=None)
    """The file with the certificate authorities, which may be rotated; None if they come from elsewhere."""

    def reload_ca(self) -> None:
        """Also trusts what the file holds now. Call it after an untrusted certificate: it may have been rotated."""
        if self.authority is not None and self.ssl is not None:
            tls.reload_ca(self.ssl, self.authority)


def load(  # noqa: PLR0913 - kubectl's flags, and where to look without them
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    as_user: str | None,
    env: Mapping[str, str],
    home: Path,
    *,
    service_account: Path = SERVICE_ACCOUNT,
    flags: kc.Flags = kc.NO_FLAGS,
) -> Access:
    """Uses --kubeconfig, or else KUBECONFIG, ~/.kube/config or the pod's service account, in this order."""
    files = _files(kubeconfig, env, home)
    if files or (flags.server and not context):
        access, user = _from_context(kc.select_context(kc.read(files) if files else None, context, flags), env)
    elif context:
        raise ConfigError(f"--context {context} needs a kubeconfig and there is none; name one with --kubeconfig")
    else:
        access, user = _with_flags(_from_pod(env, home, service_account), flags)
    access = _impersonated(access, user, as_user)
    return replace(access, namespace=namespace or access.namespace)


def context_names(kubeconfig: str | None, env: Mapping[str, str], home: Path) -> list[str]:
    """The names of the contexts in the kubeconfig that `load` would use. Empty if there is none."""
    files = _files(kubeconfig, env, home)
    return list(kc.read(files).contexts) if files else []


def _files(flag: str | None, env: Mapping[str, str], home: Path) -> list[Path]:
    if flag:
        return [Path(flag).absolute()]
    listed = [Path(name).absolute() for name in env.get("KUBECONFIG", "").split(os.pathsep) if name]
    if listed:
        present = [path for path in dict.fromkeys(listed) if path.exists()]
        if not present:
            raise ConfigError(f"KUBECONFIG names {', '.join(map(str, listed))}; expected a file, found none there")
        return present
    default = home / ".kube" / "config"
    return [default] if default.exists() else []


def _from_context(selected: kc.SelectedContext, env: Mapping[str, str]) -> tuple[Access, kc.User]:
    cluster, entry = selected.cluster, selected.cluster_entry
    server = _url(cluster.server, f"{entry}: server", "https://host:port")
    ca = kc.pem(entry, "certificate-authority", cluster.certificate_authority_data, cluster.certificate_authority)
    if ca is not None and cluster.insecure_skip_tls_verify:
        raise ConfigError(f"{entry}: certificate-authority and insecure-skip-tls-verify exclude each other; remove one")
    context = tls.client_context(ca, cluster.insecure_skip_tls_verify) if server.scheme == "https" else None
    access = Access(
        server=server.geturl().rstrip("/"),
        namespace=selected.namespace or "default",
        ssl=context,
        server_hostname=(cluster.tls_server_name or None) if context else None,
        proxy=_proxy(entry, cluster.proxy_url),
        # Like kubectl: no credentials are sent over plain http.
        credentials=_credentials(selected, context, ca, env) if context else Fixed(),
        context=selected.context,
        authority=ca if isinstance(ca, Path) else None,
    )
    return access, selected.user


def _credentials(
    selected: kc.SelectedContext, context: SSLContext, ca: tls.Pem | None, env: Mapping[str, str]
) -> Credentials:
    user, entry = selected.user, selected.user_entry
    _client_certificate(user, entry, context)
    has_password = bool(user.username or user.password)
    if has_password and (user.token or user.token_file):
        raise ConfigError(f"{entry}: expected a token or a username, found both; remove one")
    if user.token_file:
        return TokenFile(kc.resolve(entry, user.token_file), user.token)
    if user.token:
        return Fixed((bearer(user.token.strip(), str(entry)),))
    if has_password:
        pair = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        return Fixed((("Authorization", f"Basic {pair}"),))
    if user.exec:
        cluster = _cluster_info(selected.cluster, ca) if user.exec.provide_cluster_info else None
        command = _with_resolved_command(entry, user.exec)
        return ExecCredentials(checked_plugin(str(entry), command, cluster, env, os.isatty(0)), context)
    return Fixed()


def _client_certificate(user: kc.User, entry: kc.Entry, context: SSLContext) -> None:
    certificate = kc.pem(entry, "client-certificate", user.client_certificate_data, user.client_certificate)
    key = kc.pem(entry, "client-key", user.client_key_data, user.client_key)
    if certificate is None and key is None:
        return
    if certificate is None or key is None:
        raise ConfigError(f"{entry}: expected client-certificate and client-key together, found one of them")
    tls.load_client_certificate(context, certificate, key, str(entry))


def _with_resolved_command(entry: kc.Entry, spec: Exec) -> Exec:
    """As in kubectl, a command with a slash is relative to the kubeconfig; a bare name is looked up in PATH."""
    if os.sep not in spec.command:
        return spec
    return msgspec.structs.replace(spec, command=str(kc.resolve(entry, spec.command)))


def _cluster_info(cluster: kc.Cluster, ca: tls.Pem | None) -> dict[str, Any]:
    """The cluster as an exec plugin sees it. The certificate authority is always passed as data."""
    authority = tls.read(ca, "certificate-authority") if ca is not None else b""
    name = "client.authentication.k8s.io/exec"
    config = [extension.get("extension") for extension in cluster.extensions if extension.get("name") == name]
    info = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority).decode(),
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
        "config": config[0] if config else None,
    }
    return {key: value for key, value in info.items() if value}


def _from_pod(env: Mapping[str, str], home: Path, directory: Path) -> Access:
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigError(
            "expected a cluster to talk to, found none: no --kubeconfig, KUBECONFIG is not set,"
            f" {home / '.kube' / 'config'} does not exist, and this is not a pod; name a file with --kubeconfig"
        )
    token = read_token(directory / "token")
    return Access(
        server=f"https://[{host.strip('[]')}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=_namespace(directory / "namespace"),
        ssl=tls.client_context(directory / "ca.crt", insecure=False),
        server_hostname=None,
        proxy=None,
        credentials=TokenFile(directory / "token", token),
        context="in-cluster",
        in_cluster=True,
        authority=directory / "ca.crt",
    )


def _with_flags(access: Access, flags: kc.Flags) -> tuple[Access, kc.User]:
    """The pod's access with the flags that apply to it."""
    if flags.useless_in_pod:
        useless = ", ".join(flags.useless_in_pod)
        raise ConfigError(f"{useless} needs a kubeconfig or --server, found neither; name one of them")
    if flags.token:
        access = replace(access, credentials=Fixed((bearer(flags.token, "--token"),)))
    return access, kc.user_with_flags(kc.User(), flags)


def _namespace(path: Path) -> str:
    try:
        return path.read_bytes().decode("ascii", "replace").strip() or "default"
    except FileNotFoundError:
        return "default"
    except OSError as error:
        raise ConfigError(f"{path}: expected the name of the pod's namespace, found: {error.strerror}") from error


def _impersonated(access: Access, user: kc.User, as_user: str | None) -> Access:
    name = as_user or user.as_
    # Like kubectl, --as replaces the user only: uid, groups and extra of the kubeconfig stay.
    details = [("Impersonate-Uid", user.as_uid)] if user.as_uid else []
    details += [("Impersonate-Group", group) for group in user.as_groups]
    for key, values in user.as_user_extra.items():
        header = "Impersonate-Extra-" + quote(key, safe="!#$&'*+-.^_`|~")
        details += [(header, value) for value in values]
    if not name:
        if details:
            raise ConfigError("as-uid, as-groups and as-user-extra need a user; set `as` or give --as")
        return access
    headers = (("Impersonate-User", name), *details)
    if not all(value.isprintable() for _, value in headers):
        raise ConfigError("expected impersonated names to be printable, found characters no HTTP header can carry")
    return replace(access, credentials=Impersonating(access.credentials, headers))


def _proxy(entry: kc.Entry, url: str) -> str | None:
    return _url(url, f"{entry}: proxy-url", "http://host:port", userinfo=True).geturl() if url else None


def _url(text: str, field_name: str, example: str, *, userinfo: bool = False) -> SplitResult:
    """Parses an http or https URL. No message quotes it, since it may hold a password."""
    try:
        parts = urlsplit(text)
        usable = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise ConfigError(f"{field_name}: expected a URL like {example}, found one that cannot be read") from None
    if parts.scheme not in ("http", "https"):
        given = parts.scheme if usable else "no URL"
        raise ConfigError(
            f"{field_name}: expected a URL like {example}, found {given}; only http and https are supported"
        )
    if not usable:
        raise ConfigError(f"{field_name}: expected a URL like {example}, found one without a host")
    if "@" in parts.netloc and not userinfo:
        raise ConfigError(
            f"{field_name}: expected a URL like {example}, found a password in it; use username and password"
        )
    return parts
