"""Images, PDFs and notebooks are shown to the model; anything else is refused."""

import base64
import json

import pytest

from agentd.agent.tools.viewing import LARGEST_IMAGE, find_media_type, view_file
from agentd.core.errors import BadRequest

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"%PDF-1.7", "application/pdf"),
        (b"<svg/>", ""),
        (b"", ""),
    ],
)
def test_what_a_file_is_stands_in_its_first_bytes(content, kind):
    assert find_media_type(content) == kind


def test_an_image_is_shown_whatever_its_name():
    seen = view_file("shot.dat", PNG)
    assert (seen.kind, seen.size) == ("image", len(PNG))
    (picture,) = seen.attachments
    assert base64.b64decode(picture.data) == PNG


def test_text_and_what_is_too_large_is_refused():
    with pytest.raises(BadRequest, match="read_file reads text"):
        view_file("a.png", b"hello")
    with pytest.raises(BadRequest, match="too large"):
        view_file("a.png", PNG + bytes(LARGEST_IMAGE))


def test_a_notebook_is_shown_with_outputs_and_pictures():
    picture = base64.b64encode(PNG).decode()
    outputs = [
        {"output_type": "stream", "text": ["a\n", "b\n"]},
        {"output_type": "execute_result", "data": {"text/plain": "x" * 5000}},
        {"output_type": "display_data", "data": {"image/png": f"{picture}\n", "text/plain": "Fig"}},
        {"output_type": "display_data", "data": {"image/png": "no base64!"}},
        {"output_type": "error", "ename": "KeyError", "evalue": "'k'", "traceback": ["…"]},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Words."]},
        {"cell_type": "code", "source": "plot()", "outputs": outputs},
    ]
    seen = view_file("a.ipynb", json.dumps({"cells": cells, "nbformat": 4}).encode())
    for piece in ("# Cell 1 (markdown)", "# Title\nWords.", "plot()", "a\nb", "KeyError: 'k'"):
        assert piece in seen.text
    assert "3,000 more characters" in seen.text
    assert [one.media_type for one in seen.attachments] == ["image/png"]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"cells": 3}', b"\xff", b"[" * 100_000])
def test_what_is_no_notebook_is_reported(content):
    with pytest.raises(BadRequest, match="not a notebook"):
        view_file("a.ipynb", content)
