"""Copies of a state folder in use, as people make them."""

import subprocess
from pathlib import Path


def copy_state(state: str, target: Path) -> None:
    """Copy with ``cp -r``, the documented way; a temporary name may vanish meanwhile."""
    done = subprocess.run(["cp", "-r", state, target], capture_output=True, text=True, check=False)
    assert all("/.tmp-" in line for line in done.stderr.splitlines()), done.stderr
