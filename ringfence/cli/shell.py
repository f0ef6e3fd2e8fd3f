"""The command about itself: completion, version."""

from typing import Annotated, Literal

from typer import Argument

import ringfence
from ringfence.cli.invocation import Invocation, alone

Shell = Literal["bash", "zsh", "fish"]


@alone("completion")
def completion(run: Invocation, shell: Annotated[Shell, Argument(help="Which one.")]) -> None:
    """Print the completion script of a shell.

    For bash: eval "$(ringfence completion bash)" in ~/.bashrc.
    For zsh: eval "$(ringfence completion zsh)" in ~/.zshrc, after compinit.
    For fish: ringfence completion fish > ~/.config/fish/completions/ringfence.fish
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    run.screen.text(get_completion_script(prog_name="ringfence", complete_var="_RINGFENCE_COMPLETE", shell=shell))


@alone("version")
def version(run: Invocation) -> None:
    """Print the version."""
    run.screen.done({"version": ringfence.__version__}, f"ringfence {ringfence.__version__}", ringfence.__version__)
