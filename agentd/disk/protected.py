"""Where the protected places of this daemon are, as they are on disk now."""

import re
from collections.abc import Iterator
from contextlib import suppress
from os.path import expanduser, join, realpath

from agentd.agent.protected import CONFIG_FILES, ProtectedPlaces
from agentd.disk.layout import Layout

_NAMED_SECRET = re.compile(r"\bfile:((?:/|~/)[^\s\"',}\]#]+)")
"""A secret that a file of the configuration names: ``file:PATH``."""
_MOST = 1 << 20


def find_protected_places(layout: Layout) -> ProtectedPlaces:
    """Look up where links of the configuration lead, and which files it names. Blocking."""
    config = realpath(layout.config)
    files = {path for name in sorted(CONFIG_FILES) for path in _files_of(join(config, name))}
    home = realpath(expanduser("~"))
    return ProtectedPlaces(
        state=realpath(layout.state),
        config=config,
        files=tuple(sorted(files)),
        home="" if home == "/" else home,
    )


def _files_of(path: str) -> Iterator[str]:
    """A file of the configuration, by its own name, and those that it names."""
    with suppress(OSError, ValueError):
        yield realpath(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            for named in _NAMED_SECRET.findall(file.read(_MOST)):
                yield realpath(expanduser(named))
