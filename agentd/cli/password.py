"""Reading a new password: one line from a pipe, or typed twice at a terminal."""

import getpass
import sys

from agentd.auth import password
from agentd.core.errors import BadRequest


def read_new_password(user: str = "", *, piped: bool = False) -> str:
    """Return a new password for ``user``, read without showing it.

    ``piped`` reads standard input even if that is a terminal. Raises ``BadRequest`` for a weak
    password, and when the repetition differs.
    """
    if piped or not sys.stdin.isatty():
        data = sys.stdin.buffer.readline(4 * password.MAX_LENGTH + 3)
        try:
            typed = data.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise BadRequest("the password is not UTF-8") from error
    else:
        typed = getpass.getpass(f"new password of {user}: " if user else "new password: ")
        if getpass.getpass("repeat it: ") != typed:
            raise BadRequest("the passwords differ; nothing was changed")
    password.check_new_password(typed, user)
    return typed
