"""Uploaded files that a prompt names, in the work tree that it is carried out in.

Uploads are in the workspace's folder, which git ignores, so a work tree does not have them; what a
prompt names by its path is copied there. Everything blocks.
"""

import logging
import os
import shutil
from contextlib import suppress
from os.path import join

from agentd.workspace.uploads.named import list_named_uploads
from agentd.workspace.uploads.rules import FOLDER

log = logging.getLogger(__name__)

_IGNORED = ".gitignore"
_PARTIAL = ".agentd-copy"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def copy_attachments(workspace: str, folder: str, prompt: str) -> None:
    """Copy the uploads that a prompt names to a work tree's ``folder``, unless they are there.

    What cannot be copied is logged: the agent does not find it, and says so.
    """
    source, target = join(workspace, FOLDER), join(os.path.realpath(folder), FOLDER)
    try:
        named = list_named_uploads(workspace, prompt)
        if not named:
            return
        os.makedirs(target, exist_ok=True)
        if os.path.realpath(target) != target:  # a link, perhaps to where nobody may write
            log.warning("%s leads elsewhere, so uploads are not copied there", target)
            return
        ignored = [_IGNORED] if os.path.isfile(join(source, _IGNORED)) else []
        for name in (*ignored, *named):
            _copy(join(source, name), join(target, name), join(target, _PARTIAL))
    except OSError as error:
        log.warning("uploads are not copied to %s: %s", target, error.strerror)


def _copy(source: str, target: str, partial: str) -> None:
    """Copy a file; links are followed on neither side."""
    if os.path.lexists(target):
        return
    with suppress(FileNotFoundError):
        os.unlink(partial)
    with (
        os.fdopen(os.open(source, _READ), "rb") as given,
        os.fdopen(os.open(partial, _MAKE, 0o644), "wb") as made,
    ):
        shutil.copyfileobj(given, made)
    os.replace(partial, target)
