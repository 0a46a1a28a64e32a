"""The management key, for commands that call ``/api/agent`` of a running daemon."""

import argparse
import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from agentd.auth.key import MAX_KEY_BYTES
from agentd.cli.client import Client, find_daemon_url
from agentd.cli.options import add_json_option, add_url_option, resolve_layout
from agentd.core.errors import BadRequest, Unauthorized
from agentd.storage import document


def add_key_file_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--key-file``."""
    parser.add_argument("--key-file", metavar="FILE", help="file with the management key")


def add_daemon_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that the running daemon carries out."""
    add_key_file_option(parser)
    add_url_option(parser)
    add_json_option(parser)


@contextmanager
def open_management(args: argparse.Namespace) -> Iterator[Client]:
    """Return a client of the running daemon with the management key, for the block."""
    url = args.url or find_daemon_url(resolve_layout(args))
    with Client(url, read_management_key(args.key_file)) as client, explain_refused_key():
        yield client


def read_management_key(path: str | None) -> str:
    """Return the key from a private file, as it is typed, or from a pipe."""
    key = _read_file(path) if path else _read_input()
    if not key:
        raise BadRequest(
            "no management key was given",
            "Type it when asked, pipe it, or name its file with --key-file.",
        )
    if not (key.isascii() and key.isprintable()):
        raise BadRequest("the management key must consist of visible ASCII characters")
    return key


@contextmanager
def explain_refused_key() -> Iterator[None]:
    """Say which key is expected when the daemon refuses the one it got."""
    try:
        yield
    except Unauthorized as error:
        raise Unauthorized(
            error.message, "Expected the key whose SHA-256 (agentd hash-key) is PROXY_APP_HASH."
        ) from error


def _read_file(path: str) -> str:
    found = document.read_document(path, MAX_KEY_BYTES + 2, private=True)
    if found is None:
        raise BadRequest(f"{path} does not exist")
    return found.data.decode("utf-8", "replace").strip()


def _read_input() -> str:
    if sys.stdin.isatty():
        return getpass.getpass("management key: ")
    return sys.stdin.buffer.read(MAX_KEY_BYTES + 3).decode("utf-8", "replace").strip()
