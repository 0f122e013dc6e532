"""Options that commands share, the environment variable of each option, and kubectl's own flags."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from samara.cli.suggestions import SuggestingChoice

if TYPE_CHECKING:  # imported when a command connects, so that help and completion stay quick
    from click.shell_completion import CompletionItem

    from samara.kube.auth import Access

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

PREFIX = "SAMARA"
WITHOUT_VARIABLE = frozenset({"--copies", "--delete", "--discard"})
"""Flags that delete something must be given on the command line, so that a forgotten variable deletes nothing."""

_ON = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_OFF = frozenset({"0", "f", "F", "false", "FALSE", "False"})
"""The values that kubectl accepts for a boolean flag."""


@dataclass(slots=True)
class Debug:
    """Whether `--debug` is anywhere on the command line."""

    is_on: bool = False


def _set_debug(context: click.Context, parameter: click.Parameter, is_given: bool) -> None:
    debug = context.find_object(Debug)
    if is_given and debug is not None:
        debug.is_on = True


def debug_flag() -> click.Option:
    return click.Option(
        ["--debug"],
        is_flag=True,
        expose_value=False,
        callback=_set_debug,
        is_eager=True,
        help="Show the traceback if the program itself has a bug.",
    )


class KubectlStyleCommand(click.Command):
    """Accepts `--flag=true` and `--flag=false` like kubectl. If a flag is repeated, the last one counts."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        options = {flag: option for option in self.params if isinstance(option, click.Option) for flag in option.opts}
        flags = {flag: option for flag, option in options.items() if option.is_flag}
        end = _end_of_flags(args, None if self.allow_interspersed_args else options)
        switched_off = _switched_off(flags, args[:end])
        rest = super().parse_args(context, [*_normalize_flags(options, args[:end]), *args[end:]])
        context.params.update(dict.fromkeys(switched_off, False))
        return rest


def _normalize_flags(options: Mapping[str, click.Option], args: Sequence[str]) -> list[str]:
    """The arguments as click reads them.

    `--flag=true` becomes `--flag`, `--flag=false` is dropped, and `-o=json`, which click reads as `=json`, becomes
    `-o json`.
    """
    normalized = []
    for arg in args:
        flag, equals, value = arg.partition("=")
        if flag in options and options[flag].is_flag and value in _ON | _OFF:
            normalized += [flag] if value in _ON else []
        elif flag in options and equals and not flag.startswith("--"):
            normalized += [flag, value]
        else:
            normalized.append(arg)
    return normalized


def _switched_off(flags: Mapping[str, click.Option], args: Sequence[str]) -> list[str]:
    """The parameters whose last flag is `=false`. They are off even if an environment variable sets them."""
    last_values = {}
    for arg in args:
        flag, _, value = arg.partition("=")
        if flag in flags and flags[flag].expose_value:
            last_values[flags[flag].name or ""] = value
    return [name for name, value in last_values.items() if value in _OFF]


def _end_of_flags(args: Sequence[str], options: Mapping[str, click.Option] | None) -> int:
    """The index behind the last flag.

    Flags end at `--`. In a group, whose `options` are given, they also end at the first word that is neither a flag nor
    its value, because the words from there on belong to a subcommand.
    """
    end = args.index("--") if "--" in args else len(args)
    if options is None:
        return end
    index = 0
    while index < end and args[index].startswith("-"):
        option = options.get(args[index])
        index += 1 if option is None or option.is_flag else 2
    return min(index, end)


GENERAL = frozenset({"--kubeconfig", "--context", "--as", "--request-timeout", "--debug", "--help"})
"""Flags that mean the same for every command. Its help shows them below its own."""
_MAX_LISTED_CHOICES = 4
"""Values that the help shows between a flag and its text. More are listed behind the text."""


class Command(KubectlStyleCommand):
    """A command of `samara`. Each of its flags can be given as `SAMARA_<FLAG>` too."""

    def __init__(self, *args: Any, examples: Mapping[str, str] | None = None, namespace: str = "", **more: Any) -> None:
        """`examples` are command lines by what they are for. `namespace` says what -n means for this command."""
        super().__init__(*args, **more)
        self.examples = examples or {}
        self.params.append(debug_flag())
        for parameter in self.params:
            if type(parameter.type) is click.Choice:
                parameter.type = SuggestingChoice(parameter.type.choices)
            if isinstance(parameter, click.Option):
                _set_variable(parameter)
                _shorten_choices(parameter)
                if parameter.name == "namespace" and namespace:
                    parameter.help = namespace

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Names the variable in the message about a wrong value that comes from one."""
        try:
            return super().parse_args(context, args)
        except click.BadParameter as error:
            option = error.param
            if not isinstance(option, click.Option) or not isinstance(option.envvar, str):
                raise
            if context.get_parameter_source(option.name or "") is not ParameterSource.ENVIRONMENT:
                raise
            raise click.BadParameter(error.message, context, option, f"the variable {option.envvar}") from None

    def format_help_text(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(context, formatter)
        if not self.examples:
            return
        with formatter.section("Examples"):
            formatter.write("\n".join(f"  # {purpose}\n  {line}\n" for purpose, line in self.examples.items()))

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Shows the flags of this command first, and those that mean the same everywhere below them."""
        options = [parameter for parameter in self.get_params(context) if isinstance(parameter, click.Option)]
        own = [option for option in options if GENERAL.isdisjoint(option.opts)]
        general = [option for option in options if not GENERAL.isdisjoint(option.opts)]
        for title, listed in (("Options", own), ("Options of every command", general)):
            records = [record for option in listed if (record := option.get_help_record(context)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        options = [parameter for parameter in self.params if isinstance(parameter, click.Option)]
        example = next(option for option in options if option.envvar)
        lines = [
            f"Every flag can be given as a variable too, such as {example.envvar} for {max(example.opts, key=len)}."
        ]
        if any(option.envvar is None for option in options):
            lines.append("Flags that delete something have none.")
        if any(option.name == "server" for option in options):
            lines.append("kubectl's other flags for the connection are accepted too, such as --server and --token.")
        formatter.write_paragraph()
        formatter.write_text(" ".join(lines))


def _set_variable(option: click.Option) -> None:
    flag = max(option.opts, key=len)
    if flag not in WITHOUT_VARIABLE:
        option.envvar = f"{PREFIX}_{flag.lstrip('-').replace('-', '_').upper()}"


def _shorten_choices(option: click.Option) -> None:
    if isinstance(option.type, click.Choice) and len(option.type.choices) > _MAX_LISTED_CHOICES:
        option.metavar = "VALUE"
        option.help = f"{option.help} One of: {', '.join(option.type.choices)}."


def config_flag(command: F) -> F:
    help_text = "The file with the settings. Default: those of the operator in the cluster, else the built-in ones."
    return click.option("--config", type=click.Path(), metavar="FILE", help=help_text)(command)


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in an event loop of its own, and returns its result.

    The result is not that of the task, because `asyncio.run` makes the repr of a task, and the result may hold 10,000
    writes.
    """
    import asyncio  # late, because help and completion do not need it

    results: list[T] = []

    async def run() -> None:
        results.append(await coroutine)

    asyncio.run(run())
    return results[0]


# kubectl's flags

NO_TIMEOUT = 86_400.0
"""Seconds for `--request-timeout=0`, which means no timeout to kubectl. No request takes a day."""
OPTIONAL_TIMEOUT = 3.0
"""Seconds to wait at most for a cluster that a command can do without."""


def _complete_namespaces(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from samara.cli import completion  # late, because only a shell that completes needs it

    return completion.namespaces(context, parameter, incomplete)


def _complete_contexts(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from samara.cli import completion

    return completion.contexts(context, parameter, incomplete)


_COMMON_FLAGS = (
    click.option(
        "--kubeconfig",
        type=click.Path(),
        metavar="FILE",
        help="The kubeconfig file. Default: KUBECONFIG, else ~/.kube/config.",
    ),
    click.option(
        "--context",
        metavar="NAME",
        shell_complete=_complete_contexts,
        help="The context of the kubeconfig. Default: its current one.",
    ),
    click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        shell_complete=_complete_namespaces,
        help="The namespace. Default: that of the context.",
    ),
    click.option("--as", "as_user", metavar="USER", help="Act as this user, if you may."),
    click.option(
        "--request-timeout",
        metavar="DURATION",
        help="How long a request may take; 0: no limit.",
        default="30s",
        show_default=True,
    ),
)
_RARE_FLAGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--cluster", {"metavar": "NAME", "help": "The kubeconfig cluster to use."}),
    ("--user", {"metavar": "NAME", "help": "The kubeconfig user to use."}),
    ("--server", {"metavar": "URL", "help": "The address of the API server."}),
    ("--certificate-authority", {"metavar": "FILE", "help": "The certificate of the authority to trust."}),
    ("--insecure-skip-tls-verify", {"is_flag": True, "help": "Do not check the server's certificate."}),
    ("--tls-server-name", {"metavar": "NAME", "help": "The name to check the server's certificate for."}),
    ("--client-certificate", {"metavar": "FILE", "help": "The client certificate to show."}),
    ("--client-key", {"metavar": "FILE", "help": "The key of the client certificate."}),
    ("--token", {"metavar": "TOKEN", "help": "The bearer token to show."}),
    ("--as-group", {"metavar": "GROUP", "multiple": True, "help": "Act as a member of this group; repeatable."}),
    ("--as-uid", {"metavar": "UID", "help": "Act as the user with this uid."}),
    ("--as-user-extra", {"metavar": "KEY=VALUE", "multiple": True, "help": "Act with this extra; repeatable."}),
    ("--disable-compression", {"is_flag": True, "help": "Accepted; answers are never compressed."}),
    ("--cache-dir", {"metavar": "FOLDER", "help": "Accepted; nothing is cached on disk."}),
)
"""Every command accepts them, but only `kubectl-accurate --help` lists them: other help would be twice as long."""
_WITHOUT_EFFECT = ("disable_compression", "cache_dir")
_SHORT_FORMS = {"--server": ("-s",)}


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that kubectl's flags name."""

    kubeconfig: str | None
    context: str | None
    namespace: str | None
    as_user: str | None
    timeout: float
    rare_flags: dict[str, Any] = field(default_factory=dict, repr=False)
    """By parameter name. They may include a token."""

    @property
    def is_named(self) -> bool:
        """True if a flag names the cluster."""
        return any((self.kubeconfig, self.context, *map(self.rare_flags.get, ("cluster", "user", "server"))))

    @property
    def without_namespace(self) -> Cluster:
        """For commands in which -n names the namespace of an object, so that it is not taken for the operator's."""
        return replace(self, namespace=None)

    @property
    def optional_timeout(self) -> float:
        """The timeout for a command that can do without the cluster."""
        return min(OPTIONAL_TIMEOUT, self.timeout)

    def access(self) -> Access:
        from samara.kube.auth import load
        from samara.kube.auth.kubeconfig import Flags

        flags = Flags(**{name: value for name, value in self.rare_flags.items() if value})
        home = Path.home()
        return load(self.kubeconfig, self.context, self.namespace, self.as_user, os.environ, home, flags=flags)


def kubectl_options(*, all_shown: bool = False) -> tuple[Callable[[F], F], ...]:
    """Kubectl's flags as decorators."""
    rare = (click.option(*_SHORT_FORMS.get(flag, ()), flag, hidden=not all_shown, **more) for flag, more in _RARE_FLAGS)
    return (*_COMMON_FLAGS, *rare)


_LISTING_FLAGS = {
    "-o": False,
    "--output": False,
    "-l": False,
    "--selector": False,
    "-A": True,
    "--all-namespaces": True,
}
"""Flags of kubectl that only some commands have, and whether they stand without a value."""


def flags_behind_command(args: list[str]) -> list[str]:
    """The arguments with kubectl's flags in front of the command moved behind it, where the command reads them.

    Without a command they are dropped.
    """
    command = click.Command(None)
    for add in kubectl_options():
        add(command)
    options = (option for option in command.params if isinstance(option, click.Option))
    is_switch = {flag: option.is_flag for option in options for flag in option.opts} | _LISTING_FLAGS
    end = 0
    while end < len(args) and args[end].partition("=")[0] in is_switch:
        end += 1 if "=" in args[end] or is_switch[args[end]] else 2
    flags, rest = args[:end], args[end:]
    return [rest[0], *flags, *rest[1:]] if rest and not rest[0].startswith("-") else rest


def kubectl_flags(command: F) -> F:
    """Adds kubectl's flags to a command, which gets one argument `cluster` in their place."""

    def with_cluster(**values: Any) -> Any:
        return command(cluster=cluster_of(values), **values)

    with_cluster.__name__ = command.__name__
    with_cluster.__doc__ = command.__doc__
    with_cluster.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    wrapped: Any = with_cluster
    for flag in reversed(kubectl_options()):
        wrapped = flag(wrapped)
    return wrapped  # type: ignore[no-any-return]


def cluster_of(values: dict[str, Any]) -> Cluster:
    """The cluster that the values of kubectl's flags name. Takes these out of the arguments of a command."""
    return Cluster(
        values.pop("kubeconfig"),
        values.pop("context"),
        values.pop("namespace"),
        values.pop("as_user"),
        _seconds(values.pop("request_timeout")),
        _pop_rare_flags(values),
    )


def _pop_rare_flags(rest: dict[str, Any]) -> dict[str, Any]:
    """Takes the rare flags out of the arguments of a command. Drops those without effect."""
    names = [flag.strip("-").replace("-", "_") for flag, _ in _RARE_FLAGS]
    rare = {name: rest.pop(name) for name in names}
    rare["as_groups"] = rare.pop("as_group")
    return {name: value for name, value in rare.items() if name not in _WITHOUT_EFFECT}


def _seconds(text: str) -> float:
    """Parses a duration, or, like kubectl, a number of seconds without a unit. 0 is as good as no timeout."""
    from samara.setting_types import DURATION, parse_duration

    seconds = float(text) if text.isdecimal() and len(text) < 10 else parse_duration(text)
    if seconds is None:
        raise click.UsageError(f"--request-timeout: expected {DURATION}, found {text!r}")
    return seconds or NO_TIMEOUT
