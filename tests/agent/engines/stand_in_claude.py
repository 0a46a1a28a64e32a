"""A stand-in for the program of Claude Code: it plays a script, over real pipes.

For what the real program (``real/test_claude_code.py``) cannot be made to say. What the
stand-in says has the shape of its public protocol (``claude_code/lines.py``), the control
channel too.

``python stand_in_claude.py SCRIPT ARGUMENTS…``: the script is a JSON list of plays, each
``{"when": an argument's beginning, "steps": […]}``; the first of which an argument begins so
(or whose ``when`` is empty) is played. Its steps:

- ``{"say": line}`` writes a line; ``{"raw": text}`` writes what is no line;
- ``{"hear": {…}}`` waits for a line that has these members; any other ends it with code 64;
- ``{"errors": text}`` writes to the standard error; ``{"exit": code}`` ends it.

After the last step it waits for the end of its input, as the real one does.
"""

import json
import sys
from pathlib import Path
from typing import Any


def play(steps: list[dict[str, Any]]) -> int:
    """Play to the end; the exit code."""
    for step in steps:
        match step:
            case {"say": said}:
                write(json.dumps(said) + "\n")
            case {"raw": said}:
                write(said)
            case {"errors": said}:
                sys.stderr.write(said)
            case {"hear": expected}:
                heard = sys.stdin.readline()
                if not heard or not has(json.loads(heard), expected):
                    sys.stderr.write(f"expected {json.dumps(expected)}, heard {heard}")
                    return 64
            case {"exit": code}:
                return int(code)
    sys.stdin.read()
    return 0


def write(text: str) -> None:
    """Say it at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def has(found: Any, expected: Any) -> bool:
    """Return whether all expected values were found; of an object's members some suffice."""
    if not isinstance(expected, dict):
        return bool(found == expected)
    return isinstance(found, dict) and all(has(found.get(key), expected[key]) for key in expected)


def main(script: str, arguments: list[str]) -> int:
    """Choose the play by the arguments."""
    for one in json.loads(Path(script).read_text()):
        if any(argument.startswith(one["when"]) for argument in [*arguments, ""]):
            return play(one["steps"])
    return 65


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
