"""The program `samara`: runs a command, and turns every error into one line on stderr and an exit code."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from samara import __version__
from samara.cli.options import Debug, flags_behind_command
from samara.cli.suggestions import unknown_command
from samara.kube.aiohttp_import import small_aiohttp

if TYPE_CHECKING:  # imported when they are needed: the errors take longer than all other imports of this module
    from click.shell_completion import CompletionItem

    from samara.kube.errors import SamaraError
    from samara.settings import SettingsError

GROUPS = {
    "Run the operator": {
        "run": "run the operator until SIGTERM or Ctrl-C",
    },
    "See what the operator does, and why (these commands write nothing)": {
        "status": "show the sources, the state of their copies, and held deletions",
        "plan": "show what the operator would write, now or after an apply",
        "why": "show why an object is, or is not, in a namespace",
        "tree": "show namespace trees and templates, and what they propagate",
        "lint": "find mistakes in manifests",
    },
    "Act": {
        "release": "let deletions that the operator holds go on, or discard them",
        "orphans": "list copies that no source wants; --delete deletes them",
        "uninstall": "remove webhooks and finalizers; --copies also deletes the copies",
    },
    "Set up": {
        "manifests": "print the whole installation that the settings need",
        "rbac": "print exactly the rights that the settings need",
        "crds": "print the custom resource definitions that the settings need",
        "completion": "print a script for bash, zsh or fish that completes words",
        "version": "show the versions of Samara and of the API server",
    },
}
"""The commands and their lines in `samara --help`, under a title for each group."""
COMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}
PLUGIN_GROUP = "samara.commands"
"""Other packages add commands to `samara` by entry points of this group."""
DEVTOOLS_TITLE = "Try it"
DEVTOOLS_COMMANDS = {"demo": "start a local API server and the operator, and show what it does"}
"""Commands of `samara-devtools`, a package that the operator does not need."""
NO_DEMO = "the demo is in a package of its own: pip install 'samara[demo]', or make demo in a checkout"
HELP = "help"
"""`samara help status` is the same as `samara status --help`."""
EXIT_INTERRUPTED = 130
OUR_PACKAGES = {"samara", "kubectl_accurate"}
"""A bug is reported with the last line of the traceback that is in one of these."""
UNANSWERED = "expected an answer, or --yes, found the end of the input; nothing was changed"
DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a full or broken disk. Usually stdout is redirected to a file there."""
RECURSION_LIMIT = 30_000
"""The API server accepts JSON that is nested 10,000 deep, and the decoder is recursive."""


class Commands(click.Group):
    """Imports the module of a command when it is needed, so that `samara run` does not load the others."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [*COMMANDS, *DEVTOOLS_COMMANDS]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in COMMANDS:
            with small_aiohttp():
                command: click.Command = import_module(f"samara.cli.commands.{name}").command
            return command
        from importlib.metadata import entry_points  # slow to import, and seldom needed

        for entry in entry_points(group=PLUGIN_GROUP, name=name):
            plugin: click.Command = entry.load()
            return plugin
        if name in DEVTOOLS_COMMANDS and not context.resilient_parsing:
            raise click.UsageError(NO_DEMO, context)
        return None

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Accepts `samara -n shop -o json status` and `samara help status`, as kubectl does."""
        args = flags_behind_command(args)
        if args[:1] == [HELP]:
            args = flags_behind_command([*args[1:], "--help"])
        return super().parse_args(context, args)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuses an unknown command, and names those that are spelt nearly like it."""
        word = args[0]
        if not context.resilient_parsing and not word.startswith("-") and self.get_command(context, word) is None:
            raise unknown_command(word, context, self)
        return super().resolve_command(context, args)

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offers commands from the tables, so that a shell that completes imports none, and flags as any command."""
        from click.shell_completion import CompletionItem

        lines = {**COMMANDS, **DEVTOOLS_COMMANDS}
        commands = [CompletionItem(name, help=line) for name, line in lines.items() if name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, context, incomplete)]

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Written from the tables, so that `--help` imports no command."""
        groups = {DEVTOOLS_TITLE: DEVTOOLS_COMMANDS, **GROUPS}
        width = max(len(name) for group in groups.values() for name in group)
        for title, group in groups.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in group.items()])


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`samara help COMMAND` shows what a command does, with examples and all of its flags.",
)
@click.version_option(__version__, prog_name="samara", message="%(prog)s %(version)s", help="Show the version.")
def samara() -> None:
    """Copies namespaced Kubernetes objects, such as Secrets, to the namespaces that need them."""


def user_errors(error: BaseException) -> list[SamaraError | SettingsError] | None:
    """The errors in an exception or in a group of exceptions. None if one of them has no message for users."""
    from samara.kube.errors import SamaraError
    from samara.settings import SettingsError

    if isinstance(error, SamaraError | SettingsError):
        return [error]
    if isinstance(error, BaseExceptionGroup):
        groups = [user_errors(inner) for inner in error.exceptions]
        if all(group is not None for group in groups):
            return [inner for group in groups for inner in group or ()]
    return None


def main() -> None:
    with _exit_zero_on_signal() if sys.argv[1:2] == ["run"] else nullcontext():
        run(samara, "samara")


@contextmanager
def _exit_zero_on_signal() -> Iterator[None]:
    """Exits with 0 on a signal while the operator is still being imported, since it has not done anything yet.

    The operator's own handlers are installed with its event loop. The kernel ignores SIGTERM for the first process of a
    container as long as that has no handler.
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in handlers:
        signal.signal(number, lambda *_: os._exit(0))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def run(program: click.Command, name: str) -> None:
    """Runs a program and exits the process."""
    sys.setrecursionlimit(RECURSION_LIMIT)
    debug = Debug()
    try:
        code = program.main(prog_name=name, standalone_mode=False, obj=debug)
        if sys.stdout is not None:  # it is None if stdout is closed, as with `>&-`
            sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort as error:
        sys.exit(_aborted(error, name))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _discard_stdout()
        sys.exit(1)
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - the outermost boundary: users get one line
        _print_error(error, debug, name)
        sys.exit(1)


def _aborted(error: click.exceptions.Abort, name: str) -> int:
    """The exit code of a command whose question was not answered with yes. Explains only the end of the input."""
    if isinstance(error.__context__, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    if isinstance(error.__context__, EOFError):
        click.echo(err=True)  # ends the line of the question
        click.echo(f"{name}: {UNANSWERED}", err=True)
    return 1


def _discard_stdout() -> None:
    """Points stdout to /dev/null, so that flushing the rest at exit raises no second BrokenPipeError."""
    with Path(os.devnull).open("w") as devnull:
        os.dup2(devnull.fileno(), sys.stdout.fileno())


def _print_error(error: BaseException, debug: Debug, name: str) -> None:
    if debug.is_on:
        import traceback

        traceback.print_exception(error)
    from samara.cli.output import print_line

    for text in _error_lines(error):
        print_line(f"{name}: {text}", err=True)


def _error_lines(error: BaseException) -> list[str]:
    expected = user_errors(error)
    if expected is not None:
        return list(dict.fromkeys(line for inner in expected for line in str(inner).splitlines()))
    if isinstance(error, OSError) and error.errno in DISK_ERRORS:
        return [f"expected to be able to write, found: {error.strerror}; make room, or print elsewhere"]
    # The message is left out: that of an unexpected error may contain anything, even a value of a Secret.
    return [f"a bug: unexpected {_origin(error)}; --debug shows the traceback, please report it"]


def _origin(error: BaseException) -> str:
    """The type of an error, and the last line of our own code in its traceback."""
    import traceback

    inner = error
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    frames = traceback.extract_tb(inner.__traceback__)
    ours = [frame for frame in frames if OUR_PACKAGES & set(Path(frame.filename).parts)] or list(frames)
    line = f" at {Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
    return f"{type(inner).__name__}{line}"


if __name__ == "__main__":
    main()
