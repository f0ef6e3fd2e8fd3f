"""docs/cli.md is what the commands say."""

from pathlib import Path

from ringfence.cli.document import document
from ringfence.cli.main import NOUNS, load
from ringfence.cli.problems import EXIT_CODES
from tests.cli.conftest import Cli

PAGE = Path(__file__).parents[2] / "docs/cli.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == document(), "run: script/docs"


def test_every_command_and_option_says_what_it_is_for() -> None:
    for name in NOUNS:
        command = load(name)
        for verb in getattr(command, "commands", {name: command}).values():
            assert verb.help, (name, verb.name)
            for option in verb.params:
                assert option.help or option.param_type_name == "argument", (name, verb.name, option.name)


def test_the_table_of_nouns_says_what_the_nouns_say() -> None:
    for name, (_, _, about) in NOUNS.items():
        assert (load(name).help or "").partition("\n")[0] == about


def test_help_tells_the_exit_codes_and_every_noun(cli: Cli) -> None:
    told = " ".join(cli.ok("--help").split())
    for code, meaning in EXIT_CODES.items():
        assert f"{code} {meaning}" in told
    for name in NOUNS:
        assert name in told
    assert cli.ok("-h") == cli.ok("--help")
