"""``agentd init``: a commented ``agentd.yml``, where there is none yet."""

import argparse
from collections.abc import Iterable

from agentd.catalog.settings import documented
from agentd.cli.options import Subcommands, layout
from agentd.disk import document

EXAMPLES = """\
examples:
  agentd init                                into this place's config folder
  agentd init --config ~/.config/agentd

It asks nothing and overwrites nothing.
"""


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    commands.add_parser(
        "init",
        help="write a commented agentd.yml",
        description="Write an agentd.yml with every setting, its default and what it does.",
        epilog=EXAMPLES,
    ).set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write it; ``Conflict`` when there is one."""
    where = layout(args)
    document.make_folder(where.config)
    document.create(where.settings, template().encode(), mode=0o644)
    print(where.settings)
    return 0


def template() -> str:
    """The file: every setting, commented out, with its default."""
    head = (
        "# Settings of agentd. What is commented out has the value shown.\n"
        "# The command line, the environment and .env come before this file.\n"
    )
    return head + "".join(_paragraphs())


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
