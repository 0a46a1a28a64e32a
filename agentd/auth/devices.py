"""Short names of the devices that log in: ``Firefox on Linux``, ``curl``. Pure.

The header ``User-Agent`` is whatever a client sends. Only names that are known here are taken from
it, or one plain word, so that nobody can have a login look like a sentence of agentd.
"""

import re

UNKNOWN_DEVICE = "Unknown device"
MAX_USER_AGENT = 1000
"""Characters of the header that are looked at."""

_BROWSERS = (
    ("Edg", "Edge"),
    ("EdgA", "Edge"),
    ("EdgiOS", "Edge"),
    ("OPR", "Opera"),
    ("SamsungBrowser", "Samsung Internet"),
    ("FxiOS", "Firefox"),
    ("Firefox", "Firefox"),
    ("CriOS", "Chrome"),
    ("HeadlessChrome", "Chrome"),
    ("Chrome", "Chrome"),
)
"""The token of a browser before its version, and its name; most claim to be Chrome as well."""

_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
)

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9._+-]{0,39}")


def describe_device(user_agent: str) -> str:
    """Return the browser and its system, the program's name, or ``UNKNOWN_DEVICE``."""
    text = user_agent[:MAX_USER_AGENT]
    system = next((name for token, name in _SYSTEMS if token in text), "")
    browser = _find_browser(text)
    if browser:
        return f"{browser} on {system}" if system else browser
    program = _WORD.match(text)
    if text.startswith("Mozilla/") or not program:
        return f"A browser on {system}" if system else UNKNOWN_DEVICE
    return program[0]


def _find_browser(text: str) -> str:
    if not text.startswith("Mozilla/"):
        return ""
    found = next((name for token, name in _BROWSERS if f"{token}/" in text), "")
    return found or ("Safari" if "Safari/" in text and "Version/" in text else "")
