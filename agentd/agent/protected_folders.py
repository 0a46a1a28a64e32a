"""Finds the protected paths of this daemon as they are on disk now."""

import re
from collections.abc import Iterator
from contextlib import suppress
from os.path import expanduser, join, realpath

from agentd.storage.layout import Layout
from agentd.system.protected_paths import CONFIG_FILES, ProtectedPlaces

_NAMED_SECRET = re.compile(r"\bfile:((?:/|~/)[^\s\"',}\]#]+)")
"""A reference to a secret file in the configuration: ``file:PATH``."""
_MOST = 1 << 20


def find_protected_places(layout: Layout) -> ProtectedPlaces:
    """Resolve the configuration's links and the secret files that it names. Blocking."""
    config = realpath(layout.config)
    files = {path for name in sorted(CONFIG_FILES) for path in _iter_files(join(config, name))}
    home = realpath(expanduser("~"))
    return ProtectedPlaces(
        state=realpath(layout.state),
        config=config,
        files=tuple(sorted(files)),
        home="" if home == "/" else home,
    )


def _iter_files(path: str) -> Iterator[str]:
    """Yield the real path of a configuration file, and of the files that it names."""
    with suppress(OSError, ValueError):
        yield realpath(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            for named in _NAMED_SECRET.findall(file.read(_MOST)):
                yield realpath(expanduser(named))
