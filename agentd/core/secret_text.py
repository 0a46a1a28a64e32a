"""Secrets as written in settings: in plain text, or a reference to where they are. Pure."""

import re
from typing import Annotated, TypeAlias

from msgspec import Meta

SecretText: TypeAlias = Annotated[str, Meta(max_length=4096, extra={"secret": True})]
"""The secret itself, ``env:NAME`` or ``file:PATH``. Write-only: the API never returns it."""


MASK = "****"
"""Prefix of a masked secret in responses; a secret with this prefix is never stored."""


def is_reference(secret: str) -> bool:
    """Return whether this only says where the secret is."""
    return secret.startswith(("env:", "file:"))


def get_secret_part(value: str) -> str:
    """Return the part of a header's value that is secret, or a reference: without ``Bearer``."""
    return value.rpartition(" ")[2]


def explain_malformed_secret(secret: str) -> str:
    """Explain why a secret is malformed, without repeating it; empty if it is valid."""
    kind, _, place = secret.partition(":")
    if kind == "env" and not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", place):
        return "expected the name of an environment variable after env:"
    if kind == "file" and not place.startswith(("/", "~/")):
        return "expected a path that begins with / or ~/ after file:"
    if secret.startswith(MASK) or f"{MASK}@" in secret:
        return "is a masked secret, not the secret itself"
    if secret and not is_reference(secret) and not re.fullmatch("[!-~]+", secret):
        return "contains blanks or unprintable characters"
    return ""
