"""Asking a person for a password, once from a pipe and twice at a terminal."""

import getpass
import sys

from agentd.access import password
from agentd.errors import BadRequest


def asked(name: str, *, piped: bool = False) -> str:
    """A new password for ``name``, not shown; ``piped`` reads standard input, terminal or not.

    ``BadRequest`` for a weak one, and when it was not typed the same again.
    """
    if piped or not sys.stdin.isatty():
        data = sys.stdin.buffer.readline(4 * password.LONGEST + 3)
        try:
            word = data.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise BadRequest("the password is not UTF-8") from error
    else:
        word = getpass.getpass(f"new password of {name}: " if name else "new password: ")
        if getpass.getpass("the same again: ") != word:
            raise BadRequest("the two are not the same; nothing is changed")
    password.check_new(word, name)
    return word
