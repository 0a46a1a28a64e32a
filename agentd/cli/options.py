"""The options that every command has, before or after its name."""

import argparse
import json
import os
from collections.abc import Iterable
from typing import Any, TypeAlias

from agentd.core.errors import BadRequest
from agentd.settings.sources import ResolvedConfig, load, locate
from agentd.storage.layout import Layout

Subcommands: TypeAlias = "argparse._SubParsersAction[Parser]"

_SETTINGS = {
    "host": ("HOST", "address to listen on"),
    "port": ("PORT", "port to listen on, 0 for any free one"),
    "state": ("DIR", "folder of the daemon's data"),
    "config": ("DIR", "folder of agentd.yml"),
    "workspace": ("DIR", "folder that the agent works in"),
    "agent_api_key": ("HASH", "SHA-256 of an API key (agentd hash-key)"),
}


class Parser(argparse.ArgumentParser):
    """A parser that knows the settings; the parsers of its commands are of the same class."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(
            allow_abbrev=False,
            **{"formatter_class": argparse.RawDescriptionHelpFormatter} | arguments,
        )
        group = self.add_argument_group("settings (see config/README.md)")
        for name, (metavar, description) in _SETTINGS.items():
            option = f"--{name.replace('_', '-')}"
            # A default here would hide what was typed before the command's name.
            group.add_argument(option, metavar=metavar, help=description, default=argparse.SUPPRESS)


def to_sentence(help_text: str) -> str:
    """Return a command's line in its parent's help as the first sentence of its own help."""
    return f"{help_text[0].upper()}{help_text[1:]}."


def add_json_option(parser: argparse.ArgumentParser, help_text: str = "print JSON") -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help=help_text)


def add_url_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--url``, for commands that call a running daemon."""
    parser.add_argument(
        "--url",
        default="",
        help="the daemon's URL, with its path if it has one; default: from the state folder",
    )


def parse_pairs(
    option: str, pairs: Iterable[str], between: str, *, case_matters: bool
) -> dict[str, str]:
    """Return the values of an option that is given once for each name. Raises ``BadRequest``."""
    form = f"NAME{between}VALUE"
    found: dict[str, str] = {}
    seen: set[str] = set()
    for pair in pairs:
        name, has_value, value = (part.strip() for part in pair.partition(between))
        if not (name and has_value):
            raise BadRequest(f"{option}: expected {form}")  # it may be a secret: not repeated
        alike = name if case_matters else name.lower()
        if alike in seen:
            raise BadRequest(f"{option}: {name[:40]} is given twice")
        seen.add(alike)
        found[name] = value
    return found


def resolve_config(args: argparse.Namespace) -> ResolvedConfig:
    """Return the settings in force and where the files are. Raises ``ConfigError``."""
    return load(_collect_settings(args), os.environ, os.getcwd())


def resolve_layout(args: argparse.Namespace) -> Layout:
    """Return the layout. Raises ``ConfigError`` when the folders cannot be determined."""
    return locate(_collect_settings(args), os.environ, os.getcwd())


def _collect_settings(args: argparse.Namespace) -> dict[str, str]:
    return {name: value for name in _SETTINGS if (value := getattr(args, name, ""))}


def add_schema_option(parser: argparse.ArgumentParser, of: str) -> None:
    """Add ``--schema FILE``, the JSON Schema that a reply has to fit."""
    parser.add_argument(
        "--schema",
        metavar="FILE",
        default="",
        help=f"a JSON Schema of an object: {of} is JSON that fits it",
    )


def read_schema(path: str) -> object:
    """Return what the file of ``--schema`` says; ``BadRequest`` if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise BadRequest(f"--schema {path} cannot be read: {error}") from None
