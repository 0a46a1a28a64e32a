"""The content blocks of an editor's prompt as the text and the pictures of a chat's prompt. Pure.

Source: https://agentclientprotocol.com/protocol/content.
"""

import base64
import binascii
import os.path
import re
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from agentd.acp.messages import AcpInvalidParams, AcpJson, get_list, get_object, get_text

ATTACHED = "Attached files:"
"""The line before the paths of uploads, as the browser writes it."""
_FENCE = re.compile("`{3,}")


class Picture(Struct, frozen=True):
    """A picture to upload; it has a path only then."""

    data: bytes
    type: str


class PromptContent(Struct, frozen=True):
    """What a prompt consists of."""

    text: str
    pictures: tuple[Picture, ...] = ()


def read_prompt(params: AcpJson, root: str) -> PromptContent:
    """Return the prompt of ``session/prompt``; files below ``root`` are named relative to it.

    Raises ``AcpInvalidParams`` for what no chat can be given.
    """
    parts: list[str] = []
    pictures: list[Picture] = []
    for block in get_list(params, "prompt"):
        match get_text(block, "type"):
            case "text":
                parts.append(get_text(block, "text"))
            case "resource_link":
                parts.append(_render_link(block, root))
            case "resource":
                _add_resource(get_object(block, "resource"), root, parts, pictures)
            case "image":
                pictures.append(_read_picture(get_text(block, "data"), block))
            case other:
                raise AcpInvalidParams(f"agentd takes no content of the type {other[:40]!r}")
    text = _join(parts)
    if not text.strip() and not pictures:
        raise AcpInvalidParams("The prompt is empty")
    return PromptContent(text, tuple(pictures))


def attach(text: str, paths: list[str]) -> str:
    """Return a prompt that names its uploads, as prompts of the browser do."""
    listed = "\n".join(f"- {path}" for path in paths)
    return "\n\n".join(filter(None, (text, listed and f"{ATTACHED}\n{listed}")))


def name_resource(uri: str, root: str) -> str:
    """Return a ``file:`` URI as a path, relative to ``root`` if it is below it; others unchanged.

    A fragment such as ``#L10-20`` or ``#L10:20`` becomes the lines after a colon.
    """
    try:
        address = urlsplit(uri)
    except ValueError:  # it is named as it is
        return uri
    if address.scheme != "file":
        return uri
    path = unquote(address.path)
    if path.startswith(f"{root.rstrip('/')}/"):
        path = os.path.relpath(path, root)
    lines = re.fullmatch(r"L([0-9]+)(?:[-:]L?([0-9]+))?", address.fragment)
    return f"{path}:{'-'.join(filter(None, lines.groups()))}" if lines else path


def _join(parts: list[str]) -> str:
    """Join the blocks: text that an editor split around a mention stays one sentence."""
    return "".join(parts)


def _render_link(block: AcpJson, root: str) -> str:
    name = name_resource(get_text(block, "uri"), root)
    return f"`{name}`" if "`" not in name else name


def _add_resource(resource: AcpJson, root: str, parts: list[str], pictures: list[Picture]) -> None:
    name = name_resource(get_text(resource, "uri"), root)
    if "blob" in resource:
        if not get_text(resource, "mimeType").startswith("image/"):
            raise AcpInvalidParams(f"{name[:200]} is neither a text nor a picture")
        pictures.append(_read_picture(get_text(resource, "blob"), resource))
        return
    text = get_text(resource, "text")
    fence = "`" * (max(map(len, _FENCE.findall(text)), default=2) + 1)
    parts.append(f"\n\n`{name}`:\n{fence}\n{text.rstrip()}\n{fence}\n\n")


def _read_picture(data: str, block: AcpJson) -> Picture:
    try:
        found = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise AcpInvalidParams("The data of a picture is not base64") from error
    return Picture(found, get_text(block, "mimeType"))
