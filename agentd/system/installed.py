"""Check that a program is installed without starting it, and name install commands."""

import shutil

from agentd import DISTRIBUTION
from agentd.system.process import build_environment


def find_missing_program(program: str) -> str:
    """Explain why a program cannot be started; empty if it is executable. Blocking."""
    if shutil.which(program, path=build_environment().get("PATH")):
        return ""
    return f"The program {program} is not installed, or not in PATH."


def get_install_command(extra: str) -> str:
    """Return the command that installs one of agentd's extras."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
