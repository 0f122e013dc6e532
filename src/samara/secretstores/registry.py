"""Opens the store that a configuration names. A new secret manager needs one function and one line in `SCHEMES`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from samara.secretstores.base import Store, StoreConfigError, StoreContext, bad_url, config_text, is_loopback

INSECURE = "insecure"
_LONGEST_SCHEME = 15
"""A longer scheme is not quoted in messages, since it may be a token."""


class StoreArguments(NamedTuple):
    """The arguments from which a store is opened."""

    url: SplitResult
    """Without credentials or fragment, with a valid port, and with each option once."""
    config: Mapping[str, bytes]
    context: StoreContext


class Scheme(NamedTuple):
    """How a store is opened for one scheme of the url."""

    open: Callable[[StoreArguments], Store]
    """Does no I/O. Raises `StoreConfigError`. It imports the store's module itself, because packages that the module
    needs may not be installed."""
    uses_own_identity: Callable[[Mapping[str, bytes]], bool] = lambda config: False
    """True if the store reads as the operator, and not with credentials of the configuration. The authors of the
    configuration choose what is read as the operator and which server gets its token, so it must be in the operator's
    own namespace."""
    is_plain_text: bool = False
    """True if values travel unencrypted. Then the host must be this machine, or the url must have `insecure=true`."""
    required_key: str = ""
    """A key that the configuration must have. A store with several ways to log in checks its keys itself."""
    extra: str = ""
    """The extra of our package that installs what the store needs. The module of the store has the same name."""


def _file(arguments: StoreArguments) -> Store:
    from samara.secretstores.local import open_file

    return open_file(arguments.url)


def _kube(arguments: StoreArguments) -> Store:
    from samara.secretstores.local import open_kube

    context = arguments.context
    own_secrets = ((context.config.namespace, context.config.name),)
    return open_kube(arguments.url, context.read_secret, own_secrets)


def _vault(arguments: StoreArguments) -> Store:
    from samara.secretstores.vault import open_vault

    return open_vault(arguments.url, arguments.config)


def _fishykeys(arguments: StoreArguments) -> Store:
    from samara.secretstores.fishykeys import open_fishykeys

    return open_fishykeys(arguments.url, arguments.config)


def _aws(arguments: StoreArguments) -> Store:
    from samara.secretstores.aws import open_aws

    return open_aws(arguments.url, arguments.config)


def _always(config: Mapping[str, bytes]) -> bool:
    return True


SCHEMES: Mapping[str, Scheme] = {
    "fishykeys": Scheme(_fishykeys, is_plain_text=True, required_key="token", extra="fishykeys"),
    "fishykeys+tls": Scheme(_fishykeys, required_key="token", extra="fishykeys"),
    "aws-sm": Scheme(_aws, lambda config: "access-key-id" not in config, extra="aws"),
    "file": Scheme(_file, _always),
    "kube": Scheme(_kube, _always),
    "vault+https": Scheme(_vault, lambda config: "role" in config),
    "vault+http": Scheme(_vault, lambda config: "role" in config),  # loopback only, also with insecure=true
}


async def open_store(config: Mapping[str, bytes], context: StoreContext) -> Store:
    """Opens the store that the data of a configuration Secret names. Connects to nothing. Raises `StoreConfigError`."""
    url = parse_url(_required(config, "url"))
    scheme = SCHEMES.get(url.scheme)
    if scheme is None:
        given = repr(url.scheme) if len(url.scheme) <= _LONGEST_SCHEME else "another"
        raise bad_url(f"expected one of the schemes {', '.join(SCHEMES)}, found {given}")
    if scheme.uses_own_identity(config) and context.config.namespace != context.own_namespace:
        raise bad_url(
            f"{url.scheme}:// reads as the operator here, and not with credentials of the configuration, so the "
            f"configuration must be in the operator's namespace {context.own_namespace}; this one is in "
            f"{context.config.namespace}"
        )
    if scheme.required_key:
        _required(config, scheme.required_key)
    if scheme.is_plain_text:
        refuse_plain_text(url, url.hostname or "")
    try:
        if scheme.extra:  # in a thread: the first import takes up to a second
            await asyncio.to_thread(import_module, f"samara.secretstores.{scheme.extra}")
        return scheme.open(StoreArguments(url, config, context))
    except ModuleNotFoundError as fault:
        advice = f": install samara[{scheme.extra}]" if scheme.extra else ""
        raise bad_url(f"{url.scheme} needs the package {fault.name}, which is not installed here{advice}") from None


def _required(config: Mapping[str, bytes], key: str) -> str:
    text = config_text(config, key)
    if not text:
        raise StoreConfigError("TokenError", f"the configuration has no {key}; add that key to its Secret")
    return text


def parse_url(text: str) -> SplitResult:
    """`scheme://host:port/path?option=value`. Without a scheme, it is the address of a FishyKeys server."""
    url = _split(text if "://" in text else f"fishykeys://{text}")
    if "@" in url.netloc + unquote(url.query):
        raise bad_url("it holds credentials; put them into keys of their own and leave only the address in the url")
    if url.fragment or " " in text:
        raise bad_url("expected scheme://host:port/path?option=value, found a # or a blank")
    options = parse_qsl(url.query, keep_blank_values=True)
    if len(options) != len(dict(options)):
        raise bad_url("it gives an option twice; keep one of them")
    return url


def _split(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        _ = url.port  # the port is checked only when it is read
    except ValueError:
        raise bad_url("expected scheme://host:port/path, found a host or port that cannot be one") from None
    return url


def refuse_plain_text(url: SplitResult, host: str) -> None:
    """Raises unless the host is this machine or the administrator allows unencrypted values with `insecure=true`."""
    if not is_loopback(host) and dict(parse_qsl(url.query)).get(INSECURE) != "true":
        raise bad_url(
            "values would travel to another machine in plain text; choose the scheme with TLS, "
            f"or add {INSECURE}=true behind a ? where the way there is safe"
        )
