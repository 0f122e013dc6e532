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

from samara.cli.options import Debug
from samara.kube.aiohttp_import import small_aiohttp

if TYPE_CHECKING:  # imported when an error occurs: it takes longer than all other imports of this module
    from samara.kube.errors import SamaraError
    from samara.settings import SettingsError

COMMANDS = {
    "run": "run the operator until SIGTERM or Ctrl-C",
    "plan": "show what the operator would write, now or if a manifest were applied",
    "why": "show why an object is, or is not, in a namespace",
    "status": "show each source, its copies and what blocks them, and held deletions",
    "release": "let held deletions continue, or discard them",
    "orphans": "list marked copies that no source wants, and delete them",
    "lint": "find mistakes in manifests",
    "rbac": "print exactly the rights that the settings need",
    "crds": "print the custom resource definitions that the settings need",
    "manifests": "print the whole installation that the settings need",
    "uninstall": "remove webhooks, conversions and finalizers, and with --copies the copies",
    "tree": "show namespace trees and templates, and what they propagate",
    "version": "show the versions of Samara and of the API server, and the vocabularies",
    "completion": "print shell completion for bash, zsh or fish",
}
PLUGIN_GROUP = "samara.commands"
"""Other packages add commands to `samara` by entry points of this group."""
DEVTOOLS_COMMANDS = {"demo": "start a local API server and the operator, and show what it does"}
"""Commands of `samara-devtools`, a package that the operator does not need."""
NO_DEMO = "the demo is in a package of its own: pip install 'samara[demo]', or make demo in a checkout"
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

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Written from the tables, so that `--help` imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items(), *DEVTOOLS_COMMANDS.items()])


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def samara() -> None:
    """Keeps namespaced Kubernetes objects where they are needed."""


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
