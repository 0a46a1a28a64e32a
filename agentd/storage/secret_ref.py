"""Secrets in settings: written out, in an environment variable, or in a file of their own."""

import re
from collections.abc import Mapping
from os.path import expanduser

from agentd.core.errors import ConfigError, ConfigProblem
from agentd.core.secret_text import is_reference
from agentd.storage import document

MAX_SECRET_FILE_SIZE = 16 * 1024
"""The largest file with a secret in it, in bytes."""


def resolve_secret(secret: str, environ: Mapping[str, str], where: str, whose: str) -> str:
    """Resolve a secret of a settings file: a value, ``env:NAME`` or ``file:PATH``.

    Empty for an empty one. Raises ``ConfigError`` at ``where`` when it is missing, or when others
    could read its file; the error asks to put ``whose`` key there and never has the secret in it.
    Blocking.
    """
    if not is_reference(secret):
        return secret
    kind, _, place = secret.partition(":")
    if kind == "env":
        found = environ.get(place, "")
        missing = f"the environment variable {place} is not set"
    else:
        found, missing = _read_secret_file(expanduser(place))
    if not found:
        raise _make_config_error(where, f"{missing}; put {whose} key there")
    if not re.fullmatch("[!-~]+", found):
        raise _make_config_error(
            where, f"what {secret} holds is no key: it has blanks or odd characters"
        )
    return found


def _read_secret_file(path: str) -> tuple[str, str]:
    """Return the file's content, and the problem to report when it has none."""
    found = document.read_document(path, MAX_SECRET_FILE_SIZE, private=True)
    if found is None:
        return "", f"there is no file {path}"
    return found.data.decode("utf-8", "replace").strip(), f"{path} is empty"


def _make_config_error(where: str, what: str) -> ConfigError:
    return ConfigError([ConfigProblem(where, 0, what)])
