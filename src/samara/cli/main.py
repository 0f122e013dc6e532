"""The program `samara`: finds the command, and turns every foreseen fault into one line and an exit code."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from samara.kube.errors import SamaraError
from samara.settings import SettingsError

COMMANDS = {
    "run": "the operator: watches, plans, writes, until a signal",
    "demo": "a real local control plane, the operator, the examples, and a guided look at the result",
}


class Commands(click.Group):
    """One module per command, imported when it is asked for: `samara run` must not carry the others' weight."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"samara.cli.{name}").command
        return command


@click.command(cls=Commands, context_settings={"auto_envvar_prefix": "SAMARA", "help_option_names": ["-h", "--help"]})
def samara() -> None:
    """Keeps namespaced Kubernetes objects where they are needed."""


def faults(error: BaseException) -> list[SamaraError | SettingsError] | None:
    """The foreseen faults inside an error, or None where it is not one of those."""
    if isinstance(error, SamaraError | SettingsError):
        return [error]
    if isinstance(error, BaseExceptionGroup):
        found = [faults(each) for each in error.exceptions]
        if all(each is not None for each in found):
            return [fault for each in found for fault in each or ()]
    return None


def main() -> None:
    try:
        code = samara.main(prog_name="samara", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BaseException as error:
        foreseen = faults(error)
        if foreseen is None:
            raise
        for fault in foreseen:
            click.echo(f"samara: {fault}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
