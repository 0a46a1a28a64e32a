"""Whether a program is there, without starting it."""

import shutil

from agentd.outside.process import environment


def missing(program: str) -> str:
    """Why a program cannot be started; empty when it is there and may be run. Blocking."""
    if shutil.which(program, path=environment().get("PATH")):
        return ""
    return f"The program {program} is not installed, or not in PATH."
