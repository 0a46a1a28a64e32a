"""``agentd init``: a commented ``agentd.yml`` and ``models.yml``, and a licence, where none are."""

import argparse
from collections.abc import Iterable

from agentd.catalog.settings import documented
from agentd.cli.engines import entries
from agentd.cli.options import Subcommands, layout
from agentd.clock import SystemClock
from agentd.disk import document
from agentd.disk.licence import LicenceFile
from agentd.errors import Conflict

EXAMPLES = """\
examples:
  agentd init                                into this place's config folder
  agentd init --config ~/.config/agentd

It asks nothing and overwrites nothing. models.yml has an entry, commented out, for each coding
agent that is in PATH: codex, claude, opencode, gemini. A licence of the model gateway, for this
workstation, is made beside them (agentd licence).
"""


_MODELS = """\
# The models that a chat can choose by name; config/README.md tells all that can be said here.
# What is commented out is not in force. Changes hold at once.

# The model of a chat that names none; without it the engine of agentd.yml decides.
#default: sonnet

# Where models are reached directly; a key is env:NAME, file:PATH, or the key itself.
#suppliers: {anthropic: {dialect: anthropic, url: https://api.anthropic.com, key: env:CLAUDE_KEY}}

#models:
# agentd's own loop over a model of a supplier:
#- {name: sonnet, engine: native, model: claude-sonnet-4-5, supplier: anthropic, context: 200000}
"""


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    commands.add_parser(
        "init",
        help="write a commented agentd.yml and models.yml",
        description="Write an agentd.yml with every setting, its default and what it does, and a"
        " models.yml with the coding agents that are installed.",
        epilog=EXAMPLES,
    ).set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write them; ``Conflict`` when there is one already, after writing the other."""
    where = layout(args)
    document.make_folder(where.config)
    licence = LicenceFile(where)
    if licence.token() is None:
        licence.install_own(SystemClock().now())
        print(where.licence)
    refused = None
    for path, text in ((where.settings, template()), (where.models, models_template(entries()))):
        try:
            document.create(path, text.encode(), mode=0o644)
            print(path)
        except Conflict as conflict:
            refused = refused or conflict
    if refused:
        raise refused
    return 0


def template() -> str:
    """The file: every setting, commented out, with its default."""
    head = (
        "# Settings of agentd. What is commented out has the value shown.\n"
        "# The command line, the environment and .env come before this file.\n"
    )
    return head + "".join(_paragraphs())


def models_template(installed: Iterable[tuple[str, str]]) -> str:
    """The file of models: an example of each kind and what is ``installed``, commented out."""
    return _MODELS + "".join(f"# {path}\n#- {line}\n" for path, line in installed)


def _paragraphs() -> Iterable[str]:
    for name, default, description in documented():
        yield f"\n# {description}\n#{name}: {_written(default)}\n"


def _written(default: object) -> str:
    match default:
        case "" | ".":
            return f"'{default}'"
        case tuple():
            return f"[{', '.join(default)}]"
        case None:
            return "null"
        case float():
            return f"{default:g}"
    return str(default)
