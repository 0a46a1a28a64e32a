"""Whether a program is there, without starting it, and how to install an extra of agentd."""

import shutil

from agentd import DISTRIBUTION
from agentd.outside.process import environment


def missing(program: str) -> str:
    """Why a program cannot be started; empty when it is there and may be run. Blocking."""
    if shutil.which(program, path=environment().get("PATH")):
        return ""
    return f"The program {program} is not installed, or not in PATH."


def install_command(extra: str) -> str:
    """Return the command that installs one of agentd's extras beside it."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
