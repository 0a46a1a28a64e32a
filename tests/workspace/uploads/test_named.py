"""Which uploads a prompt names, and which of them are images that a model can see."""

import base64
from pathlib import Path

import pytest

from agentd.llm.conversation import ImagePart
from agentd.workspace.uploads import named
from agentd.workspace.uploads.named import list_named_uploads, read_named_images
from agentd.workspace.uploads.rules import FOLDER

PNG = b"\x89PNG\r\n\x1a\n" + b"dots"
JPEG = b"\xff\xd8\xff" + b"leaves"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / FOLDER).mkdir(parents=True)
    return folder


def show(kind: str, content: bytes) -> ImagePart:
    return ImagePart(kind, base64.b64encode(content).decode())


def test_images_come_in_the_order_of_the_prompt_by_what_they_are_not_what_they_are_called(
    root: Path,
) -> None:
    uploads = root / FOLDER
    (uploads / "a leaf.txt").write_bytes(JPEG)
    (uploads / "dots.png").write_bytes(PNG)
    (uploads / "notes.png").write_text("no picture")
    (uploads / "paper.pdf").write_bytes(b"%PDF-1.7")
    prompt = f"{FOLDER}/paper.pdf {FOLDER}/dots.png\n- {FOLDER}/notes.png\n- {FOLDER}/a leaf.txt"
    assert list_named_uploads(str(root), prompt) == [
        "paper.pdf",
        "dots.png",
        "notes.png",
        "a leaf.txt",
    ]
    assert read_named_images(str(root), prompt) == (
        show("image/png", PNG),
        show("image/jpeg", JPEG),
    )
    assert read_named_images(str(root), "dots.png") == ()


def test_what_is_not_there_leads_elsewhere_or_is_no_file_is_left_out(
    root: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(PNG)
    (root / FOLDER / "link.png").symlink_to(secret)
    (root / FOLDER / "folder.png").mkdir()
    prompt = f"{FOLDER}/link.png {FOLDER}/folder.png {FOLDER}/../../secret.png {FOLDER}/gone.png"
    assert read_named_images(str(root), prompt) == ()
    (root / FOLDER / "folder.png").rmdir()
    (root / FOLDER / "link.png").unlink()
    (root / FOLDER).rmdir()
    assert read_named_images(str(root), prompt) == ()
    (root / FOLDER).symlink_to(tmp_path)
    assert read_named_images(str(root), f"{FOLDER}/secret.png") == ()


def test_what_is_too_large_is_left_to_its_path(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "LARGEST_IMAGE", 20)
    monkeypatch.setattr(named, "LARGEST_IMAGES", 32)
    for name, size in (("large", 21), ("one", 20), ("two", 20), ("three", 12)):
        (root / FOLDER / name).write_bytes(PNG.ljust(size, b"."))
    prompt = " ".join(f"{FOLDER}/{name}" for name in ("large", "one", "two", "three"))
    assert [len(base64.b64decode(one.data)) for one in read_named_images(str(root), prompt)] == [
        20,
        12,
    ]
