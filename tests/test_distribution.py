"""The name under which agentd is installed, and the files that are: ``agentd`` is a stranger's."""

import os
import re
import shutil
import subprocess
import sys
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


def list_kept_files(*folders: str) -> list[Path]:
    """List the files that git keeps, or would, relative to the repository."""
    which = ["--cached", "--others", "--exclude-standard", "--", *folders]
    listed = ["git", "-C", str(REPOSITORY), "ls-files", "-z", *which]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
    return [Path(name) for name in names if name and (REPOSITORY / name).is_file()]


def test_no_text_of_the_project_shows_to_install_the_strangers_package() -> None:
    """Code, configuration and documentation, as far as they are kept."""
    texts = [REPOSITORY / name for name in list_kept_files()]
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


def install(folder: Path) -> Path:
    """Install what setuptools takes for the package, as ``pip install .`` does; return where."""
    source, target = folder / "source", folder / "installed"
    kept = list_kept_files("agentd", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
    for name in kept:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / name, source / name)
    setup = "import setuptools; setuptools.setup()"
    build = [sys.executable, "-c", setup, "--quiet", "build_py", "--build-lib", str(target)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    return target


def test_what_is_installed_is_the_whole_package_and_starts(tmp_path: Path) -> None:
    target = install(tmp_path)
    kept = set(list_kept_files("agentd"))
    installed = {path.relative_to(target) for path in target.rglob("*") if path.is_file()}
    assert kept - installed == {Path("agentd/API.md"), *(n for n in kept if n.name == "README.md")}
    home = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(target)}
    check = "import agentd.app.daemon as d, agentd.cli.main as c; print(d.__file__); exit(c.main())"
    started = subprocess.run(
        [sys.executable, "-c", check, "check"],
        cwd=tmp_path,
        env=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert started.stdout.startswith(str(target)), started.stderr
    assert started.returncode == 0, started.stderr
