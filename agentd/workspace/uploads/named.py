"""Uploads that a prompt names by their paths, and the images among them. Everything blocks."""

import base64
import logging
import os
from os.path import join

from agentd.agent.tools.viewing import LARGEST_IMAGE, find_media_type
from agentd.core.errors import AgentdError
from agentd.llm.conversation import ImagePart
from agentd.system.folder import ConfinedFolder
from agentd.workspace.uploads.rules import FOLDER, MOST_AT_ONCE

log = logging.getLogger(__name__)

LARGEST_IMAGES = 20_000_000
"""Bytes of all images of a prompt; suppliers refuse requests that are much larger."""


def list_named_uploads(workspace: str, prompt: str) -> list[str]:
    """Return the names of the uploads whose paths a prompt has, in its order.

    Raises ``OSError`` if there is no folder of uploads.
    """
    if f"{FOLDER}/" not in prompt:
        return []
    with os.scandir(join(workspace, FOLDER)) as entries:
        files = [one.name for one in entries if one.is_file(follow_symlinks=False)]
    places = {name: prompt.find(f"{FOLDER}/{name}") for name in files}
    return sorted((name for name in files if places[name] >= 0), key=lambda name: places[name])


def read_named_images(workspace: str, prompt: str) -> tuple[ImagePart, ...]:
    """Return the images among the uploads that a prompt names.

    What is too large, or cannot be read, is left to the path in the prompt.
    """
    try:
        names = list_named_uploads(workspace, prompt)
    except OSError:
        return ()
    tree = ConfinedFolder(workspace)
    found: list[ImagePart] = []
    left = LARGEST_IMAGES
    for name in names[:MOST_AT_ONCE]:
        content = _read(tree, f"{FOLDER}/{name}", min(left, LARGEST_IMAGE))
        kind = find_media_type(content)
        if kind.startswith("image/"):
            found.append(ImagePart(kind, base64.b64encode(content).decode()))
            left -= len(content)
    return tuple(found)


def _read(tree: ConfinedFolder, path: str, limit: int) -> bytes:
    """Return a file's bytes; empty if they are too many, or cannot be read."""
    try:
        with tree.open_file(tree.resolve(path), path) as descriptor:
            if os.fstat(descriptor).st_size > limit:
                return b""
            with os.fdopen(os.dup(descriptor), "rb") as file:
                content = file.read(limit + 1)
    except (AgentdError, OSError) as error:
        log.warning("%s is not shown to the model: %s", path, error)
        return b""
    return content if len(content) <= limit else b""
