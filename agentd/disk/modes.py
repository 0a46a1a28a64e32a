"""Whether anybody else could change what the daemon keeps."""

import os
import stat as modes
from collections.abc import Iterator

from agentd.errors import Mistake


def unsafe(folder: str) -> Iterator[Mistake]:
    """Whatever in a folder of ours is not ours alone to write; nothing when there is no folder.

    Blocking.
    """
    if not os.path.lexists(folder):
        return
    yield from _unsafe(folder, folder)
    for path, folders, files in os.walk(folder):
        for name in sorted(folders + files):
            yield from _unsafe(os.path.join(path, name), folder)


def _unsafe(path: str, top: str) -> Iterator[Mistake]:
    try:
        info = os.stat(path, follow_symlinks=path == top)
    except FileNotFoundError:
        return
    us = os.geteuid()
    if modes.S_ISLNK(info.st_mode):
        yield Mistake(path, 0, "is a symbolic link; put the file itself there")
    elif not (modes.S_ISREG(info.st_mode) or modes.S_ISDIR(info.st_mode)):
        yield Mistake(path, 0, "is neither a file nor a folder; remove it")
    elif info.st_uid != us:
        what = f"belongs to user id {info.st_uid}, agentd runs as {us}; chown -R {us} {top}"
        yield Mistake(path, 0, what)
    elif info.st_mode & (modes.S_IWGRP | modes.S_IWOTH):
        yield Mistake(path, 0, f"can be written by others; chmod go-w {path}")
    elif path == top and info.st_mode & 0o077:
        yield Mistake(path, 0, f"can be read by others; chmod 700 {path}")
