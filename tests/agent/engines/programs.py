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

from tests.agent.engines.talk import Message
from tests.supplier.supplier import Supplier

MODEL = "scripted-large"
KEY = "sk-scripted"

_MODULES = Path(__file__).parent / "node_modules"
_NATIVE = "@openai/codex-linux-*/vendor/*/bin/codex"

CODEX = next(_MODULES.glob(_NATIVE), _MODULES / ".bin" / "codex")
"""The native program: ``.bin/codex`` is a script of Node's that starts it as a child."""

OPENCODE = _MODULES / ".bin" / "opencode"

CLAUDE = next(_MODULES.glob("@anthropic-ai/claude-code-linux-*/claude"), _MODULES / ".bin/claude")
"""The native program, which comes inside an optional package of the platform."""

CLAUDE_ALONE = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
"""With this Claude Code calls nobody but its supplier."""


class Place(Struct, frozen=True):
    """Where a program runs: ``workspace`` is a repository with one file, ``home`` is empty."""

    workspace: Path
    home: Path

    @property
    def notes(self) -> Path:
        """The file of the workspace."""
        return self.workspace / "notes.txt"


def place(folder: Path) -> Place:
    """A fresh place in an empty folder."""
    made = Place(folder / "workspace", folder / "home")
    (made.home / "codex").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", str(made.workspace)], check=True)
    made.notes.write_text("one\ntwo\n")
    return made


def missing() -> str:
    """Why the programs cannot be run; empty if they can."""
    absent = [str(program) for program in (CODEX, OPENCODE) if not shutil.which(program)]
    return f"npm install --prefix {_MODULES.parent}: no {', '.join(absent)}" if absent else ""


def version(program: Path, where: Place) -> str:
    """The version that the program says it is of."""
    argv = [str(program), "--version"]
    told = subprocess.run(argv, env=_environment(where), check=True, capture_output=True)
    return told.stdout.decode().strip().removeprefix("codex-cli ")


def codex_argv(supplier: Supplier) -> list[str]:
    """Codex's server over standard input and output, with a supplier of models of its own.

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


def codex_environment(where: Place) -> dict[str, str]:
    """What Codex needs to be told beside its arguments."""
    return {**_environment(where), "CODEX_HOME": str(where.home / "codex")}


def opencode_argv() -> list[str]:
    """How opencode is started as an agent of the Agent Client Protocol."""
    return [str(OPENCODE), "acp"]


def opencode_environment(where: Place, supplier: Supplier) -> dict[str, str]:
    """The settings of opencode, and what keeps it from calling anybody but the supplier."""
    return {
        **_environment(where),
        **opencode_alone(where.home),
        "OPENCODE_CONFIG_CONTENT": json.dumps(opencode_settings(supplier)),
    }


def opencode_alone(home: Path) -> dict[str, str]:
    """Variables with which opencode, at this home, calls nobody but its supplier.

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
    (home / "bin" / "codex").symlink_to(CODEX)
    said = [f"export {name}='{value}'" for name, value in opencode_alone(home).items()]
    _write_script(home / "bin" / "opencode", *said, f'exec {OPENCODE} "$@"')
    said = [f"export {name}='{value}'" for name, value in CLAUDE_ALONE.items()]
    _write_script(home / "bin" / "claude", *said, f'exec {CLAUDE} "$@"')
    return home


def path_without(folder: Path, *names: str) -> str:
    """A ``PATH`` with all programs of this machine but these, as links in a new folder."""
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


def opencode_settings(supplier: Supplier) -> Message:
    """A supplier of models of its own, and a question before every edit and command."""
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


def _environment(where: Place) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(where.home), "SCRIPTED_KEY": KEY}
