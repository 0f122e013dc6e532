"""`samara run`: the operator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import click
from msgspec.structs import replace

from samara import log
from samara.cli.options import Cluster, Command, kubectl_flags
from samara.cli.suggestions import did_you_mean
from samara.kube.aiohttp_import import small_aiohttp
from samara.kube.errors import ConfigError
from samara.settings import STRUCTS, Settings, help_text
from samara.settings import load as load_settings


def _print_settings(context: click.Context, parameter: click.Parameter, is_given: bool) -> None:
    if is_given:
        click.echo(help_text())
        context.exit()


def _refuse_old_name(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
    if name is not None:
        raise click.UsageError("--dialect: unknown option, it is called '--vocabulary' now")


def _complete_vocabularies(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in STRUCTS if name.startswith(incomplete)]


@click.command(
    "run",
    cls=Command,
    namespace="The operator's own namespace. Default: that of its pod, else of the context.",
    examples={
        "Look first: plan, log and count, and write nothing but the Lease": "samara run --observe",
        "Serve two of the vocabularies": "samara run --vocabulary secret-copy --vocabulary sync-to",
        "Print every setting with its default": "samara run --help-settings",
    },
)
@click.option(
    "--config", type=click.Path(), metavar="FILE", help="The file with the settings. Default: the built-in ones."
)
@click.option(
    "--vocabulary",
    "vocabularies",
    multiple=True,
    metavar="NAME",
    shell_complete=_complete_vocabularies,
    help="Serve only this vocabulary; repeatable.",
)
@click.option("--dialect", metavar="NAME", hidden=True, expose_value=False, callback=_refuse_old_name)
@click.option("--observe", is_flag=True, help="Plan, log and count, and write nothing but the Lease.")
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Elect a leader with a Lease. Default: only inside a cluster.",
)
@click.option(
    "--http-address", default=":8080", show_default=True, help="Address of /healthz, /readyz, /syncz and /metrics."
)
@click.option(
    "--webhook-address", default=":9443", show_default=True, help="Address of the server that answers the webhooks."
)
@click.option("--no-webhook", is_flag=True, help="Answer no webhooks.")
@click.option(
    "--webhook-url",
    metavar="URL",
    help="Outside a cluster: where the API server finds the webhook, such as https://127.0.0.1:9443.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The form of log lines.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="How much to log: messages of this level and above.",
)
@click.option("--watch-seconds", type=float, default=300.0, hidden=True, help="Ask for watches of this length.")
@click.option(
    "--help-settings",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_settings,
    help="Print every setting with its default, and exit.",
)
@kubectl_flags
def command(
    cluster: Cluster,
    config: str | None,
    vocabularies: tuple[str, ...],
    observe: bool,
    leader_elect: bool | None,
    http_address: str,
    log_format: str,
    log_level: str,
    watch_seconds: float,
    webhook_address: str,
    no_webhook: bool,
    webhook_url: str | None,
) -> None:
    """Run the operator until SIGTERM or Ctrl-C.

    It watches the cluster, and creates, updates and deletes copies as their sources ask. With --observe it only says
    what it would do.
    """
    with small_aiohttp():
        from samara import app
        from samara.engine.process import forbid_core_dumps

    _check_addresses({"--http-address": http_address, "--webhook-address": webhook_address}, webhook_url)
    forbid_core_dumps()
    log.configure(log_format, log_level)
    if no_webhook and webhook_url is not None:
        log.warning("webhook.off", why="--no-webhook was given, so --webhook-url has no effect")
    settings = load_settings(config, narrow=partial(keep_vocabularies, names=_split_names(vocabularies)))
    access = cluster.access()
    elect = access.in_cluster if leader_elect is None else leader_elect
    webhook = None
    if not no_webhook and (webhook_url is not None or access.in_cluster):
        from samara.admission.admission import Listener

        webhook = Listener(webhook_address, webhook_url, access.in_cluster)
    options = app.Options(observe, elect, http_address, watch_seconds, cluster.timeout, webhook)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(app.run(settings, options, access))


def _check_addresses(addresses: dict[str, str], webhook_url: str | None) -> None:
    """Raises a usage error for an address, by its flag, or a URL that cannot be used."""
    from samara.web.listener import split_address

    for flag, address in addresses.items():
        try:
            split_address(address)
        except ConfigError as error:
            raise click.UsageError(f"{flag}: {error}") from error
    if webhook_url is None:
        return
    from samara.admission.webhooks import check_webhook_url

    try:
        check_webhook_url(webhook_url)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def keep_vocabularies(settings: Settings, names: tuple[str, ...]) -> Settings:
    """The settings with only the named vocabularies, or unchanged if none is named."""
    for name in names:
        if name not in STRUCTS:
            known = f"expected one of {', '.join(sorted(STRUCTS))}{did_you_mean(name, STRUCTS)}"
            raise click.UsageError(f"--vocabulary {name!r}: {known}")
        if name not in settings.vocabularies:
            named = ", ".join(settings.vocabularies)
            raise ConfigError(f"--vocabulary {name}: expected a vocabulary that the settings name, found {named}")
    if not names:
        return settings
    return replace(settings, vocabularies={name: own for name, own in settings.vocabularies.items() if name in names})


def _split_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Splits names at commas, which people use in the environment variable."""
    return tuple(part for name in names for part in (list(filter(None, name.split(","))) or [name]))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
