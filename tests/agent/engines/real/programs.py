"""The real engines, as ``package.json`` here installs them, ready to be started against a supplier.

They are started with nothing of this machine's owner: a home, a workspace and a key of their own.
"""

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

from msgspec import Struct

from tests.agent.engines.real.talk import Message
from tests.supplier.supplier import Supplier

MODEL = "scripted-large"
KEY = "sk-scripted"

_MODULES = Path(__file__).parent / "node_modules"
_NATIVE = "@openai/codex-linux-*/vendor/*/bin/codex"

CODEX = next(_MODULES.glob(_NATIVE), _MODULES / ".bin" / "codex")
"""The native program: ``.bin/codex`` is a script of Node's that starts it as a child."""

CODEX_ACP = _MODULES / ".bin" / "codex-acp"
"""A server of the Agent Client Protocol around Codex."""

OPENCODE = _MODULES / ".bin" / "opencode"

CLAUDE = next(_MODULES.glob("@anthropic-ai/claude-code-linux-*/claude"), _MODULES / ".bin/claude")
"""The native program, which comes inside an optional package of the platform."""

CLAUDE_ALONE = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
"""With this Claude Code calls nobody but its supplier."""

CODEX_SANDBOXED = {"TMPDIR": "/var/tmp"}
"""With this Codex does not take its home in a test's folder for a temporary one.

In a temporary home it makes no links to itself, and without those its sandbox cannot be started by
a ``bwrap`` of this machine that is older than 0.9.
"""


class Place(Struct, frozen=True):
    """The folders of a program: ``workspace`` is a repository with one file, ``home`` is empty."""

    workspace: Path
    home: Path

    @property
    def notes(self) -> Path:
        """The file of the workspace."""
        return self.workspace / "notes.txt"


def make_place(folder: Path) -> Place:
    """Make a fresh place in an empty folder."""
    made = Place(folder / "workspace", folder / "home")
    (made.home / "codex").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", str(made.workspace)], check=True)
    made.notes.write_text("one\ntwo\n")
    return made


def find_missing() -> str:
    """Explain why the programs cannot be run; empty if they can."""
    absent = [str(program) for program in (CODEX, OPENCODE) if not shutil.which(program)]
    return f"npm install --prefix {_MODULES.parent}: no {', '.join(absent)}" if absent else ""


def read_version(program: Path, where: Place) -> str:
    """Return the version that the program reports."""
    argv = [str(program), "--version"]
    result = subprocess.run(argv, env=_build_environment(where), check=True, capture_output=True)
    return result.stdout.decode().strip().removeprefix("codex-cli ")


def build_codex_argv(supplier: Supplier) -> list[str]:
    """Build the command of Codex's server over standard input and output, with our supplier.

    Plugins are off because looking for them calls out; so is the leave to write to ``/tmp``,
    where the workspaces of tests are.
    """
    settings = {
        "model": MODEL,
        "model_provider": "scripted",
        "model_providers.scripted.name": "Scripted",
        "model_providers.scripted.base_url": supplier.base,
        "model_providers.scripted.wire_api": "responses",
        "model_providers.scripted.env_key": "SCRIPTED_KEY",
        "sandbox_workspace_write.exclude_slash_tmp": True,
        "sandbox_workspace_write.exclude_tmpdir_env_var": True,
        "model_providers.scripted.request_max_retries": 1,
        "model_providers.scripted.stream_max_retries": 1,
    }
    given = [f"{name}={json.dumps(value)}" for name, value in settings.items()]
    return [
        str(CODEX),
        "app-server",
        "--disable",
        "plugins",
        *(word for one in given for word in ("-c", one)),
    ]


def build_codex_environment(where: Place) -> dict[str, str]:
    """Return the environment that Codex needs beside its arguments."""
    return {**_build_environment(where), **CODEX_SANDBOXED, "CODEX_HOME": str(where.home / "codex")}


def build_opencode_argv() -> list[str]:
    """Return the command that starts opencode as an agent of the Agent Client Protocol."""
    return [str(OPENCODE), "acp"]


def build_opencode_environment(where: Place, supplier: Supplier) -> dict[str, str]:
    """Return the settings of opencode, and the variables that keep it from calling other hosts."""
    return {
        **_build_environment(where),
        **isolate_opencode(where.home),
        "OPENCODE_CONFIG_CONTENT": json.dumps(build_opencode_settings(supplier)),
    }


def isolate_opencode(home: Path) -> dict[str, str]:
    """Return variables with which opencode, at this home, calls nobody but its supplier.

    The home says that what it would install for plugins is there. Of the models of all
    suppliers in the world, which it would read for seconds, it is told none.
    """
    settings = home / ".config" / "opencode"
    (settings / "node_modules").mkdir(parents=True)
    there = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
    (settings / "package-lock.json").write_text(json.dumps(there))
    (settings / "models.json").write_text("{}")
    return {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_MODELS_PATH": str(settings / "models.json"),
    }


def install(home: Path) -> Path:
    """Put the programs into ``bin`` of a home that is new, which is given."""
    (home / "bin").mkdir(parents=True)
    said = [f"export {name}='{value}'" for name, value in CODEX_SANDBOXED.items()]
    _write_script(home / "bin" / "codex", *said, f'exec {CODEX} "$@"')
    said = [f"export {name}='{value}'" for name, value in isolate_opencode(home).items()]
    _write_script(home / "bin" / "opencode", *said, f'exec {OPENCODE} "$@"')
    said = [f"export {name}='{value}'" for name, value in CLAUDE_ALONE.items()]
    _write_script(home / "bin" / "claude", *said, f'exec {CLAUDE} "$@"')
    return home


def build_path_without(folder: Path, *names: str) -> str:
    """Return a ``PATH`` with all programs of this machine but these, as links in a new folder."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).glob("*"):
            link = folder / program.name
            link.unlink(missing_ok=True)
            if program.name not in names:
                link.symlink_to(program)
    return str(folder)


def _write_script(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(stat.S_IRWXU)


def build_opencode_settings(supplier: Supplier) -> Message:
    """Return settings with our supplier, and a question before every edit and command."""
    model = {
        "name": "Large",
        "limit": {"context": 100_000, "output": 8_000},
        "cost": {"input": 3, "output": 15, "cache_read": 0.3},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": supplier.base, "apiKey": "{env:SCRIPTED_KEY}"},
        "models": {MODEL: model},
    }
    return {
        "provider": {"scripted": provider},
        "enabled_providers": ["scripted"],
        "model": f"scripted/{MODEL}",
        "permission": {"edit": "ask", "bash": "ask"},
        "share": "disabled",
    }


def _build_environment(where: Place) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(where.home), "SCRIPTED_KEY": KEY}
