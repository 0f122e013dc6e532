"""Reads kubeconfig files, merges them as kubectl does, and selects one context, with kubectl's flags applied."""

from __future__ import annotations

import base64
import binascii
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from samara.core.names import sample
from samara.kube.auth.exec_plugin import Exec
from samara.kube.auth.tls import Pem
from samara.kube.errors import ConfigError

T = TypeVar("T", bound=msgspec.Struct)
_YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_REPLACEMENTS = {
    "auth-provider": "kubectl no longer supports it either; use `exec:` with a plugin,"
    " such as gke-gcloud-auth-plugin for gcp, kubelogin for azure and oidc",
}


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    """The `cluster` of a context, by kubectl's names."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[dict[str, Any]] = []

    def __repr__(self) -> str:
        return "Cluster(…)"


class User(msgspec.Struct, frozen=True, rename="kebab"):
    """The `user` of a context, by kubectl's names."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: Exec | None = None
    as_: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}
    extensions: list[dict[str, Any]] = []

    def __repr__(self) -> str:
        return "User(…)"


class _Context(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A named context, cluster or user. Its paths are relative to the folder of its file."""

    title: str
    """Its type and its name, for messages."""
    file: Path
    body: Mapping[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.title} in {self.file}"


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """All files merged."""

    files: tuple[Path, ...]
    current: str
    contexts: Mapping[str, Entry]
    clusters: Mapping[str, Entry]
    users: Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class SelectedContext:
    """A context with its cluster and its user."""

    context: str
    namespace: str
    cluster: Cluster
    cluster_entry: Entry
    user: User
    user_entry: Entry


def read(files: Sequence[Path]) -> Kubeconfig:
    """Merges files. For each name the first file wins; the first current-context that is set wins."""
    documents = [(file, document) for file in files if (document := _document(file))]
    if not documents:
        raise ConfigError(f"{_join(files)}: expected a kubeconfig, found an empty file; name another with --kubeconfig")
    currents = (document.get("current-context") for _, document in documents)
    return Kubeconfig(
        files=tuple(files),
        current=next((str(current) for current in currents if current), ""),
        contexts=_merged(documents, "context"),
        clusters=_merged(documents, "cluster"),
        users=_merged(documents, "user"),
    )


@dataclass(frozen=True, slots=True)
class Flags:
    """kubectl's flags. Empty means not given."""

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
    def useless_in_pod(self) -> list[str]:
        """The given flags that do not apply to a pod's service account."""
        given = {
            "--cluster": self.cluster,
            "--user": self.user,
            "--certificate-authority": self.certificate_authority,
            "--insecure-skip-tls-verify": self.insecure_skip_tls_verify,
            "--tls-server-name": self.tls_server_name,
            "--client-certificate": self.client_certificate,
            "--client-key": self.client_key,
        }
        return [flag for flag, value in given.items() if value]


NO_FLAGS = Flags()


def select_context(config: Kubeconfig | None, context: str | None, flags: Flags = NO_FLAGS) -> SelectedContext:
    """The named context or the current one. With --server, no context is needed."""
    if flags.server and (config is None or not (context or config.current)):
        entry = Entry("the flags", Path.cwd() / "flags", {})
        selected = SelectedContext("", "", Cluster(), entry, User(), entry)
    else:
        assert config is not None
        selected = _find_context(config, context, flags)
    cluster, user = cluster_with_flags(selected.cluster, flags), user_with_flags(selected.user, flags)
    return replace(selected, cluster=cluster, user=user)


def _find_context(config: Kubeconfig, context: str | None, flags: Flags) -> SelectedContext:
    name = context or config.current
    where = _join(config.files)
    if not name:
        contexts = _names(config.contexts)
        raise ConfigError(f"{where}: no current-context is set; choose one with --context (there are: {contexts})")
    if name not in config.contexts:
        raise ConfigError(f"{where}: there is no context {name!r}; there are: {_names(config.contexts)}")
    entry = config.contexts[name]
    names = _convert(entry, _Context)
    cluster_entry = _lookup(entry, "cluster", flags.cluster or names.cluster, config.clusters)
    user_entry = _lookup(entry, "user", flags.user or names.user, config.users)
    cluster = _strict(cluster_entry, Cluster)
    return SelectedContext(name, names.namespace, cluster, cluster_entry, _user(user_entry), user_entry)


def cluster_with_flags(cluster: Cluster, flags: Flags) -> Cluster:
    """A flag replaces the field of its name. --server drops tls-server-name, which belongs to another server."""
    changed = {"server": flags.server} if flags.server else {}
    if flags.server or flags.tls_server_name:
        changed["tls_server_name"] = flags.tls_server_name
    cluster = msgspec.structs.replace(cluster, **changed)
    if not (flags.certificate_authority or flags.insecure_skip_tls_verify):
        return cluster
    return msgspec.structs.replace(
        cluster,
        insecure_skip_tls_verify=flags.insecure_skip_tls_verify,
        certificate_authority=_absolute(flags.certificate_authority),
        certificate_authority_data="",
    )


def user_with_flags(user: User, flags: Flags) -> User:
    """A flag replaces the field of its name. --token drops all other credentials, since a client certificate would take
    precedence at the API server."""
    if flags.token:
        user = User(
            token=flags.token,
            as_=user.as_,
            as_uid=user.as_uid,
            as_groups=user.as_groups,
            as_user_extra=user.as_user_extra,
        )
    changed: dict[str, object] = {}
    for name in ("client_certificate", "client_key"):
        if path := getattr(flags, name):
            changed |= {name: _absolute(path), f"{name}_data": ""}
    if flags.as_uid:
        changed["as_uid"] = flags.as_uid
    if flags.as_groups:
        changed["as_groups"] = flags.as_groups
    if flags.as_user_extra:
        changed["as_user_extra"] = _extra(flags.as_user_extra)
    return msgspec.structs.replace(user, **changed)


def _extra(pairs: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise ConfigError(f"--as-user-extra: expected KEY=VALUE, found {pair!r}")
        extra[key] = (*extra.get(key, ()), value)
    return extra


def _absolute(path: str) -> str:
    """A path in a flag is relative to the working directory, not to the folder of the kubeconfig."""
    return str(Path(path).absolute()) if path else ""


def pem(entry: Entry, key: str, data: str, path: str) -> Pem | None:
    """The content of the field `KEY-data`, decoded, or else the file that the field `KEY` names."""
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigError(f"{entry}: expected base64 in {key}-data, found something else") from error
    return resolve(entry, path) if path else None


def resolve(entry: Entry, path: str) -> Path:
    """The absolute path. A path in a kubeconfig is relative to the folder of its file."""
    return entry.file.parent / path


def _document(file: Path) -> Mapping[str, Any]:
    try:
        document = yaml.load(file.read_bytes(), Loader=_YAML_LOADER)  # noqa: S506 - one of the two safe loaders
    except OSError as error:
        raise ConfigError(f"{file}: expected a readable kubeconfig, found: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        # `from None`: PyYAML quotes the line, and the line may hold a token.
        raise ConfigError(f"{file}: expected a kubeconfig in YAML, found a syntax error{line}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: expected a kubeconfig (a mapping), found a {type(document).__name__}")
    if document.get("kind", "Config") != "Config":
        raise ConfigError(f"{file}: expected a kubeconfig (kind: Config), found another kind of document")
    return document


def _merged(documents: Iterable[tuple[Path, Mapping[str, Any]]], section: str) -> dict[str, Entry]:
    merged: dict[str, Entry] = {}
    for file, document in documents:
        entries: dict[str, Entry] = {}
        for name, body in _named(file, document, section):
            if name in entries:
                raise ConfigError(f"{file}: expected every {section} once, found {name!r} twice; remove one")
            entries[name] = Entry(f"{section} {name!r}", file, body)
        merged = entries | merged
    return merged


def _named(file: Path, document: Mapping[str, Any], section: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    items = document.get(f"{section}s") or []
    expected = f"{file}: expected {section}s to be a list of `name` and `{section}`"
    if not isinstance(items, list):
        raise ConfigError(f"{expected}, found a {type(items).__name__}")
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise ConfigError(f"{expected}, found an entry without a name")
        body = item.get(section) or {}
        if not isinstance(body, dict):
            raise ConfigError(f"{expected}, found a {type(body).__name__} under {item['name']!r}")
        yield item["name"], body


def _lookup(entry: Entry, section: str, name: str, entries: Mapping[str, Entry]) -> Entry:
    if name in entries:
        return entries[name]
    given = f"{name!r}, which is not defined" if name else "none"
    raise ConfigError(f"{entry}: expected the name of a {section}, found {given}; there are: {_names(entries)}")


def _user(entry: Entry) -> User:
    body = entry.body
    if isinstance(body.get("exec"), dict):
        plugin = Entry(f"exec of {entry.title}", entry.file, body["exec"])
        _strict(plugin, Exec)
        body = {**body, "exec": _without_nulls(plugin.body)}
    return _strict(Entry(entry.title, entry.file, body), User)


def _strict(entry: Entry, struct: type[T]) -> T:
    """Converts and refuses unknown fields. Ignoring one could select the wrong server or user."""
    known = struct.__struct_encode_fields__
    for key in _without_nulls(entry.body):
        if key not in known:
            similar = difflib.get_close_matches(str(key), known, 1)
            advice = _REPLACEMENTS.get(key) or (f"did you mean {similar[0]}?" if similar else "remove it")
            raise ConfigError(f"{entry}: the field {key!r} is not supported; {advice}")
    return _convert(entry, struct)


def _convert(entry: Entry, struct: type[T]) -> T:
    try:
        return msgspec.convert(_without_nulls(entry.body), struct)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{entry}: {error}") from error


def _without_nulls(body: Mapping[str, Any]) -> dict[str, Any]:
    """kubectl writes `args: null` and means the default."""
    return {key: value for key, value in body.items() if value is not None}


def _names(names: Iterable[str]) -> str:
    return sample(names, 20) or "none"


def _join(files: Iterable[Path]) -> str:
    return ", ".join(map(str, files))
