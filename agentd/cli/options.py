"""The options that every command has, before its name or behind it."""

import argparse
import os
from typing import Any, TypeAlias

from agentd.disk.layout import Layout
from agentd.disk.settings import Place, load, locate

Subcommands: TypeAlias = "argparse._SubParsersAction[Parser]"

_SETTINGS = {
    "host": ("HOST", "the address to listen on"),
    "port": ("PORT", "the port to listen on, 0 for any"),
    "state": ("DIR", "the folder that the daemon keeps"),
    "config": ("DIR", "the folder of agentd.yml"),
    "workspace": ("DIR", "the folder that the agent works in"),
    "agent_api_key": ("HASH", "SHA-256 of an access key (agentd hash-key)"),
}


class Parser(argparse.ArgumentParser):
    """A parser that knows the settings; the parsers of its commands are of its kind."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(
            allow_abbrev=False,
            **{"formatter_class": argparse.RawDescriptionHelpFormatter} | arguments,
        )
        group = self.add_argument_group("settings (see config/README.md)")
        for name, (value, told) in _SETTINGS.items():
            option = f"--{name.replace('_', '-')}"
            # A default here would hide what was typed before the command's name.
            group.add_argument(option, metavar=value, help=told, default=argparse.SUPPRESS)


def place(args: argparse.Namespace) -> Place:
    """The settings in force and where the files are. Raises ``Misconfigured``."""
    return load(_typed(args), os.environ, os.getcwd())


def layout(args: argparse.Namespace) -> Layout:
    """Only where the files are. Raises ``Misconfigured`` when that cannot be told."""
    return locate(_typed(args), os.environ, os.getcwd())


def _typed(args: argparse.Namespace) -> dict[str, str]:
    return {name: value for name in _SETTINGS if (value := getattr(args, name, ""))}
