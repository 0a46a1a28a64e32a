"""Tasks: what a project has written down for agents as custom commands and hooks."""

import json

from tests.agent.tasks.task import Outcome, Task, edit, read, require, say, shell, write

_ERRORS = '''\
class ShopError(Exception):
    """Something that a customer is told."""

    status = 500


class UnknownItem(ShopError):
    """There is no such item."""

    status = 404


BY_NAME = {"UnknownItem": UnknownItem}
'''


def _check_command(outcome: Outcome) -> None:
    outcome.run(
        "from shop.errors import BY_NAME, OutOfStock, ShopError\n"
        "assert issubclass(OutOfStock, ShopError) and OutOfStock.status == 409\n"
        "assert BY_NAME['OutOfStock'] is OutOfStock and OutOfStock.__doc__\n"
    )
    require("OutOfStock" in outcome.read("docs/errors.md"), "docs/errors.md does not tell of it")
    outcome.require_unchanged(".claude")


COMMAND = Task(
    name="use-a-command",
    prompt="/add-error OutOfStock 409",
    files={
        ".claude/commands/add-error.md": (
            "---\ndescription: Adds an error of the shop\nargument-hint: [name] [status]\n---\n"
            "Add the error $1 with the status $2 to @shop/errors.py: a subclass of ShopError with"
            " a docstring, in BY_NAME, and with a line in docs/errors.md.\n"
        ),
        "shop/__init__.py": "",
        "shop/errors.py": _ERRORS,
        "docs/errors.md": "# Errors\n\n- `UnknownItem` (404): there is no such item\n",
    },
    moves=(
        (read("docs/errors.md"),),
        (
            edit(
                "shop/errors.py",
                'BY_NAME = {"UnknownItem": UnknownItem}',
                'class OutOfStock(ShopError):\n    """There are not enough."""\n\n    status = 409'
                '\n\n\nBY_NAME = {"UnknownItem": UnknownItem, "OutOfStock": OutOfStock}',
            ),
            edit("docs/errors.md", "item\n", "item\n- `OutOfStock` (409): there are not enough\n"),
        ),
        say("shop/errors.py has OutOfStock, and docs/errors.md tells of it."),
    ),
    check=_check_command,
)

_GUARD = """\
import json, sys

given = json.load(sys.stdin)
if "/generated/" in given["tool_input"].get("file_path", ""):
    print("generated/ is made by make_limits.py from limits.json: change that.", file=sys.stderr)
    sys.exit(2)
"""
_MAKER = """\
import json

with open("limits.json") as source, open("generated/limits.py", "w") as made:
    for name, limit in sorted(json.load(source).items()):
        made.write(f"{name.upper()} = {limit}\\n")
"""


def _check_hook(outcome: Outcome) -> None:
    wanted = {"basket": 20, "orders": 50}
    require(json.loads(outcome.read("limits.json")) == wanted, "limits.json has other limits")
    made = outcome.read("generated/limits.py")
    require(made == "BASKET = 20\nORDERS = 50\n", "generated/limits.py is not made from it")
    outcome.require_unchanged(".claude", "make_limits.py", "scripts")


HOOK = Task(
    name="heed-a-hook",
    prompt="A basket may hold 20 items now, no longer 10: change generated/limits.py.",
    files={
        ".claude/settings.json": json.dumps(
            {
                "hooks": {
                    "PreToolUse": [
                        {
                            "matcher": "Edit|MultiEdit|Write",
                            "hooks": [{"type": "command", "command": "python3 scripts/guard.py"}],
                        }
                    ]
                }
            }
        ),
        "scripts/guard.py": _GUARD,
        "make_limits.py": _MAKER,
        "limits.json": '{"basket": 10, "orders": 50}\n',
        "generated/limits.py": "BASKET = 10\nORDERS = 50\n",
    },
    moves=(
        (write("generated/limits.py", "BASKET = 20\nORDERS = 50\n"),),
        (edit("limits.json", "10", "20"), shell("python3 make_limits.py")),
        say("limits.json has the new limit, and generated/limits.py was made from it."),
    ),
    check=_check_hook,
    may_fail=frozenset(("hook", "write_file")),
)

CONVENTIONS = (COMMAND, HOOK)
