"""What a supplier got from us in confidence must not come back to a caller in its errors. Pure."""

from collections.abc import Iterable

_SHORTEST_PART = 4
"""The fewest characters at the beginning of a secret that are masked where a text was cut."""


def mask_sent_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a supplier's text without these secrets, nor the beginning of one at its end.

    Long messages of suppliers are cut, perhaps within a secret. Takes time in proportion to the
    text for each secret.
    """
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
        text = _mask_part_at_end(text, secret)
    return text


def _mask_part_at_end(text: str, secret: str) -> str:
    body = text.removesuffix("…")
    for size in range(min(len(secret), len(body)), _SHORTEST_PART - 1, -1):
        if body.endswith(secret[:size]):
            return f"{body[:-size]}***{text[len(body) :]}"
    return text
