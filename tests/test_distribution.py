"""The name under which agentd is installed: ``agentd`` itself is a stranger's on the index."""

import re
import subprocess
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

from agentd import DISTRIBUTION
from agentd.system.installed import get_install_command
from tests.support.paths import REPOSITORY

INSTALLS = re.compile(
    r"\b(?:pipx?3?|uvx?|poetry|pdm|easy_install)\s+(?:pip\s+)?(?:install|add|run)\b"
)
"""Where a text tells to install something ..."""
WORDS = 12
"""... and so many words after it say what, on the next line too."""
STRANGER = re.compile(r"agentd(\[[^\]]*\])?([=<>~!].*)?")


def find_stranger_installs(text: str) -> Iterator[str]:
    """Find each word of a text that would install the stranger's package."""
    for found in INSTALLS.finditer(text):
        command = re.split(r"[;&|)`]", text[found.end() : found.end() + 400])[0]
        for word in command.split()[:WORDS]:
            if STRANGER.fullmatch(word.strip("'\"`,.")):
                yield f"{found[0]} {word}"
    yield from re.findall(r"(?<![\w/.-])agentd\[(?:speech|telegram|test|dev)[^\]]*\]", text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install agentd",
        "run `pip install 'agentd[speech]'` then",
        "pip install\n  'agentd[speech]'",
        "pip3 install --upgrade --user agentd==0.1",
        "pipx install agentd",
        "uv pip install agentd",
        "uv add 'agentd>=0.1'",
        "it needs agentd[telegram]",
    ],
)
def test_an_advice_to_install_the_stranger_is_found(text: str) -> None:
    assert list(find_stranger_installs(text))


@pytest.mark.parametrize(
    "text",
    [
        "pip install 'agentd-workstation[speech]'",
        "pip install --editable . && .venv/bin/agentd demo",
        "/opt/agentd/bin/pip install /opt/agentd/source",
        "pip install '.[speech]'; agentd serve",
    ],
)
def test_an_advice_to_install_this_is_none(text: str) -> None:
    assert not list(find_stranger_installs(text))


def test_no_text_of_the_project_shows_to_install_the_strangers_package() -> None:
    """Code, configuration and documentation, as far as they are kept."""
    listed = [
        "git",
        "-C",
        str(REPOSITORY),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
    texts = [path for name in names if name and (path := REPOSITORY / name).is_file()]
    assert REPOSITORY / "README.md" in texts
    found = {
        (path.name, *find_stranger_installs(path.read_text(errors="replace")))
        for path in texts
        if path != Path(__file__)
    }
    assert not [one for one in found if len(one) > 1]


def test_the_name_that_is_reported_is_the_one_that_is_installed() -> None:
    config = ConfigParser(allow_no_value=True)
    config.read(REPOSITORY / "setup.cfg")
    assert config["metadata"]["name"] == DISTRIBUTION != "agentd"
    extra = get_install_command("speech")
    assert extra == f"pip install '{DISTRIBUTION}[speech]'"
    assert {"speech", "telegram"} <= set(config["options.extras_require"])
