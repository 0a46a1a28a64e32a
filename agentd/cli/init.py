"""``agentd init``: write a commented ``agentd.yml`` and ``models.yml``, and a licence."""

import argparse
from collections.abc import Iterable

from agentd.app.engine_inspection import CodingAgent, find_installed_agents
from agentd.cli.options import Subcommands, resolve_layout
from agentd.core.clock import SystemClock
from agentd.core.errors import Conflict
from agentd.gateway.licence.store import LicenceFile
from agentd.models.model import Model
from agentd.settings.model import iter_documented
from agentd.storage import document

EXAMPLES = """\
examples:
  agentd init                                in the config folder of this checkout or user
  agentd init --config ~/.config/agentd

It asks no questions and overwrites no file. models.yml gets a commented-out entry for each coding
agent in PATH: codex, claude, opencode, gemini. A licence for the model gateway on this workstation
is created beside them (agentd licence).
"""


_MODELS = """\
# The models that a chat can choose by name; config/README.md documents every field.
# Commented-out lines have no effect. Changes take effect at once.

# The model of a chat that names none; without a default, the engine of agentd.yml is used.
#default: sonnet

# Suppliers that are called directly; a key is env:NAME, file:PATH, or the key itself.
#suppliers: {anthropic: {dialect: anthropic, url: https://api.anthropic.com, key: env:CLAUDE_KEY}}

#models:
# agentd's own agent loop over a supplier's model:
#- {name: sonnet, engine: native, model: claude-sonnet-4-5, supplier: anthropic, context: 200000}
"""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    commands.add_parser(
        "init",
        help="write a commented agentd.yml and models.yml",
        description="Write an agentd.yml with every setting, its default and what it does, and a"
        " models.yml with the coding agents that are installed.",
        epilog=EXAMPLES,
    ).set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write both; raise ``Conflict`` for one that exists, after writing the other."""
    layout = resolve_layout(args)
    document.make_folder(layout.config)
    licence = LicenceFile(layout)
    if licence.read_token() is None:
        licence.install_own(SystemClock().now())
        print(layout.licence)
    conflict = None
    for path, text in (
        (layout.settings, render_settings()),
        (layout.models, render_models(find_installed_agents())),
    ):
        try:
            document.create_document(path, text.encode(), mode=0o644)
            print(path)
        except Conflict as error:
            conflict = conflict or error
    if conflict:
        raise conflict
    return 0


def render_settings() -> str:
    """Return an ``agentd.yml``: every setting, commented out, with its default."""
    head = (
        "# Settings of agentd. Commented-out settings have the value shown.\n"
        "# The command line, the environment and .env override this file.\n"
    )
    return head + "".join(_iter_paragraphs())


def render_models(installed: Iterable[tuple[str, CodingAgent]]) -> str:
    """Return a ``models.yml``: an example of each kind and the installed agents, commented out."""
    entries = (f"# {path}\n#- {_render_entry(agent.model)}\n" for path, agent in installed)
    return _MODELS + "".join(entries)


def _render_entry(model: Model) -> str:
    command = f", command: [{', '.join(model.command)}]" if model.command else ""
    return f"{{name: {model.name}, engine: {model.engine}{command}}}"


def _iter_paragraphs() -> Iterable[str]:
    for name, default, description in iter_documented():
        yield f"\n# {description}\n#{name}: {_render_default(default)}\n"


def _render_default(default: object) -> str:
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
