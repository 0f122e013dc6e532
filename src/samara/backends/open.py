"""Opens the store that a configuration names. A new secret manager is one function and one line of the table here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from samara.backends.base import ConfigFault, ReadSecret, Store, is_loopback, text_of, wrong_url

INSECURE = "insecure"
_WORD = 15


class Given(NamedTuple):
    """What a store may be made of."""

    url: SplitResult
    """Without credentials and fragment, with a legal port and each option once."""
    config: Mapping[str, bytes]
    read_secret: ReadSecret
    own: Collection[tuple[str, str]]
    """Namespace and name of the Secrets that are never read for anybody: the operator's own."""


class Way(NamedTuple):
    """Where a scheme leads."""

    make: Callable[[Given], Store]
    """Asks nobody anything; raises `ConfigFault`. It imports what it needs itself: that may not be installed."""
    plain: bool = False
    """True where nothing on the way is encrypted: then it leads to ourselves, or the administrator has said so."""
    needs: str = ""
    """The key of the configuration without which nothing can be asked; what has several ways in judges itself."""
    extra: str = ""
    """The extra of our package that brings what it needs, and the module here that uses it."""


def _file(given: Given) -> Store:
    from samara.backends.files import open_file

    return open_file(given.url)


def _kube(given: Given) -> Store:
    from samara.backends.kube_secrets import open_kube

    return open_kube(given.url, given.read_secret, given.own)


def _vault(given: Given) -> Store:
    from samara.backends.vault import open_vault

    return open_vault(given.url, given.config)


def _fishykeys(given: Given) -> Store:
    from samara.backends.fishykeys import open_fishykeys

    return open_fishykeys(given.url, given.config)


def _aws(given: Given) -> Store:
    from samara.backends.aws import open_aws

    return open_aws(given.url, given.config)


WAYS: Mapping[str, Way] = {
    "fishykeys": Way(_fishykeys, plain=True, needs="token", extra="fishykeys"),
    "fishykeys+tls": Way(_fishykeys, needs="token", extra="fishykeys"),
    "aws-sm": Way(_aws, extra="aws"),
    "file": Way(_file),
    "kube": Way(_kube),
    "vault+https": Way(_vault),
    "vault+http": Way(_vault),  # knows this machine only, whatever the administrator says
}


async def open_store(
    config: Mapping[str, bytes], read_secret: ReadSecret, own: Collection[tuple[str, str]] = ()
) -> Store:
    """The store of a config Secret's data. Nobody has been asked anything yet. Raises `ConfigFault`."""
    url = parsed(_needed(config, "url"))
    way = WAYS.get(url.scheme)
    if way is None:
        found = repr(url.scheme) if len(url.scheme) <= _WORD else "another"  # so long a one may be a token
        raise wrong_url(f"expected one of the schemes {', '.join(WAYS)}, found {found}")
    if way.needs:
        _needed(config, way.needs)
    if way.plain:
        refuse_plain_text(url, url.hostname or "")
    try:
        if way.extra:  # takes up to a second the first time: beside the loop, then
            await asyncio.to_thread(import_module, f"samara.backends.{way.extra}")
        return way.make(Given(url, config, read_secret, own))
    except ModuleNotFoundError as fault:
        todo = f": install samara[{way.extra}]" if way.extra else ""
        raise wrong_url(f"{url.scheme} needs the package {fault.name}, which is not installed here{todo}") from None


def _needed(config: Mapping[str, bytes], key: str) -> str:
    text = text_of(config, key)
    if not text:
        raise ConfigFault("TokenError", f"the configuration has no {key}; add that key to its Secret")
    return text


def parsed(text: str) -> SplitResult:
    """`scheme://host:port/path?option=value`; what has no scheme is a FishyKeys server's address."""
    url = _split(text if "://" in text else f"fishykeys://{text}")
    if "@" in url.netloc + unquote(url.query):
        raise wrong_url("it holds credentials; put them into keys of their own and leave only the address in the url")
    if url.fragment or " " in text:
        raise wrong_url("expected scheme://host:port/path?option=value, found a # or a blank")
    options = parse_qsl(url.query, keep_blank_values=True)
    if len(options) != len(dict(options)):
        raise wrong_url("it gives an option twice; keep one of them")
    return url


def _split(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        _ = url.port  # parsed when it is asked for
    except ValueError:
        raise wrong_url("expected scheme://host:port/path, found a host or port that cannot be one") from None
    return url


def refuse_plain_text(url: SplitResult, host: str) -> None:
    """Values leave this machine readable to others only where the administrator has said that they may."""
    if not is_loopback(host) and dict(parse_qsl(url.query)).get(INSECURE) != "true":
        raise wrong_url(
            "values would travel to another machine in plain text; choose the scheme with TLS, "
            f"or add {INSECURE}=true behind a ? where the way there is safe"
        )
