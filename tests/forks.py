"""Processes that are forked from one that has everything imported: a start costs a fraction of a second."""

import multiprocessing
import os
import sys
from pathlib import Path
from typing import NoReturn

from ringfence.cli.main import NOUNS

forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(["tests.harness", *{f"ringfence.cli.{module}" for module, _, _ in NOUNS.values()}])


def command(words: list[str], streams: list[Path], env: dict[str, str], cwd: Path, within: float) -> int:
    """Run `ringfence` in a process of its own, its three streams being files; its exit code."""
    process = forks.Process(target=_command, args=(words, streams, env, cwd))
    process.start()
    process.join(within)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise TimeoutError(f"ringfence {' '.join(words)}: not within {within} s")
    return process.exitcode


def _command(words: list[str], streams: list[Path], env: dict[str, str], cwd: Path) -> NoReturn:
    from ringfence.cli.main import main

    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, path in enumerate(streams):
        os.dup2(os.open(path, os.O_WRONLY if number else os.O_RDONLY), number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    sys.argv = ["ringfence", *words]
    sys.exit(main())
