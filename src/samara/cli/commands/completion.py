"""`samara completion`: the shell script that completes commands and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from samara.cli.options import Command

PROGRAMS = ("samara", "kubectl-samara")
VARIABLE = "_SAMARA_COMPLETE"
"""The same for both programs, because kubectl-samara runs under the name `samara` too."""

CORRECTED = {
    "zsh": {
        "    for type key descr in ${response}; do\n": (
            '    local flag=""\n'
            '    [[ "${words[CURRENT]}" == --*=* ]] && flag="${words[CURRENT]%%=*}="\n'
            "    for type key descr in ${response}; do\n"
        ),
        '("$key")': '("$flag$key")',
        '("$key":"$descr")': '("$flag$key":"$descr")',
        "            _path_files -f\n": (
            "            [[ -n \"$flag\" ]] && compset -P '--*='\n            _path_files -f\n"
        ),
    },
    "fish": {
        'string split "," $completion': 'string split --max 1 "," $completion',
        "    for completion in $response;\n": (
            "    set -l flag (string match --regex -- '^--[^=]+=' (commandline -ct));\n"
            "    for completion in $response;\n"
        ),
        "            __fish_complete_path $metadata[2];\n": (
            "            for path in (__fish_complete_path $metadata[2]);\n"
            '                echo "$flag"$path;\n'
            "            end;\n"
        ),
        "echo $metadata[2]": 'echo "$flag"$metadata[2]',
    },
}
"""By shell: parts of click's script, and what stands in their place.

click offers only the value for `--flag=value`, and these shells replace the whole word. fish cut a description at its
first comma.
"""


@click.command(
    "completion",
    cls=Command,
    examples={
        "bash, in ~/.bashrc": 'eval "$(samara completion bash)"',
        "zsh, in ~/.zshrc after compinit": 'eval "$(samara completion zsh)"',
        "fish, in ~/.config/fish/config.fish": "samara completion fish | source",
    },
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script with which a shell completes commands, flags, and names from the cluster.

    The shell must read it at its start.
    """
    for program in PROGRAMS:
        click.echo(completion_script(context, shell, program, VARIABLE))


def completion_script(context: click.Context, shell: str, program: str, variable: str) -> str:
    """The shell script that completes one program. It runs the program with `variable` set, so that click completes."""
    completion = get_completion_class(shell)
    assert completion is not None
    script = completion(context.find_root().command, {}, program, variable).source()
    for line, corrected in CORRECTED.get(shell, {}).items():
        script = script.replace(line, corrected)
    return script
