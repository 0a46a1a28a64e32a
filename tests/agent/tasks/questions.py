"""Tasks: answer a question about a project, and change nothing."""

import json

from tests.agent.tasks.task import Commit, Outcome, Task, read, require, say, search, shell
from tests.supplier.steps import Call

_SERVER = """import os

from defaults import PORT


def choose_port():
    return int(os.environ.get("SHOP_PORT") or PORT + 1)
"""


def _check_port(outcome: Outcome) -> None:
    outcome.require_unchanged()
    outcome.require_reply("8081", "SHOP_PORT")


PORT = Task(
    name="where-is-it-set",
    prompt="Which port does the server use when nothing is set, and how do I set another one?",
    files={"server.py": _SERVER, "defaults.py": "PORT = 8080\n"},
    moves=(
        (search("port"),),
        (read("server.py"), read("defaults.py")),
        say("8081: one more than PORT in defaults.py. Set SHOP_PORT for another one."),
    ),
    check=_check_port,
)


_MY_TOTAL = "def pay(total, discount):\n    return total - discount\n"


def _check_review(outcome: Outcome) -> None:
    outcome.require_unchanged("README.md")
    require(outcome.read("total.py") == _MY_TOTAL, "my change was changed")
    outcome.require_reply("discount", "negative")


REVIEW = Task(
    name="review-a-change",
    prompt=(
        "Review my uncommitted change, without changing anything. Can the result become negative"
        " now where it could not before? Answer with the word “negative” and the reason."
    ),
    files={
        "README.md": "Totals.\n",
        "total.py": "def pay(total, discount):\n    return max(0, total - discount)\n",
    },
    uncommitted={"total.py": _MY_TOTAL},
    moves=(
        (Call("git_diff"),),
        say("Yes, negative: a discount above the total is not held at 0 any more."),
    ),
    check=_check_review,
)

_NOTEBOOK = json.dumps(
    {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": 1,
                "metadata": {},
                "source": ["rows = load()\n", "len(rows)"],
                "outputs": [
                    {
                        "output_type": "execute_result",
                        "execution_count": 1,
                        "metadata": {},
                        "data": {"text/plain": ["48213"]},
                    }
                ],
            }
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
)


def _check_notebook(outcome: Outcome) -> None:
    outcome.require_unchanged()
    outcome.require_reply("48213")


NOTEBOOK = Task(
    name="read-a-notebook",
    prompt="How many rows were loaded when analysis.ipynb was last run? Answer with digits only.",
    files={"analysis.ipynb": _NOTEBOOK},
    moves=((Call("view_file", {"path": "analysis.ipynb"}),), say("48213")),
    check=_check_notebook,
)


def _check_callers(outcome: Outcome) -> None:
    outcome.require_unchanged()
    outcome.require_reply("jobs/nightly.py", "web/checkout.py")
    require("web/view.py" not in outcome.reply, "web/view.py does not call it")


CALLERS = Task(
    name="who-calls-it",
    prompt="Which files call `charge` of billing.py, also under another name? Only their paths.",
    files={
        "billing.py": "def charge(order):\n    return order\n",
        "web/checkout.py": "from billing import charge\n\ncharge(1)\n",
        "web/view.py": "def charge_label():\n    return 'charge'\n",
        "jobs/nightly.py": "import billing as money\n\nrun = money.charge\nrun(2)\n",
    },
    moves=(
        (search("charge"), search("billing")),
        (read("jobs/nightly.py"),),
        say("web/checkout.py\njobs/nightly.py"),
    ),
    check=_check_callers,
)


def _check_helpers(outcome: Outcome) -> None:
    outcome.require_unchanged()
    outcome.require_reply("14", "36")


HELPERS = Task(
    name="two-parts-at-once",
    prompt=(
        "How many functions have the packages `north` and `south`, each with all its modules?"
        " Answer with both numbers."
    ),
    files={
        "north/a.py": "".join(f"def f{n}():\n    pass\n\n\n" for n in range(10)),
        "north/b.py": "".join(f"def g{n}():\n    pass\n\n\n" for n in range(4)),
        "south/a.py": "".join(f"def h{n}():\n    pass\n\n\n" for n in range(36)),
    },
    moves=(
        (
            Call("run_task", {"prompt": "Count the functions in north/. Reply with the number."}),
            Call("run_task", {"prompt": "Count the functions in south/. Reply with the number."}),
        ),
        say("north has 14, south has 36."),
    ),
    check=_check_helpers,
    helpers={"north/": "north has 14 functions.", "south/": "south has 36 functions."},
)


def _check_history(outcome: Outcome) -> None:
    outcome.require_unchanged()
    outcome.require_reply("too slow", "cache")


HISTORY = Task(
    name="why-was-it-done",
    prompt="Why was cache.py removed? Say it in the words of the history.",
    commits=(
        Commit("Add a cache", {"cache.py": "CACHE = {}\n", "a.py": "import cache\n"}),
        Commit(
            "Look prices up each time\n\nThe cache was too slow.",
            {"a.py": "A = 1\n"},
            ("cache.py",),
        ),
        Commit("Other work", {"b.py": "B = 1\n"}),
    ),
    files={"a.py": "A = 2\n"},
    moves=(
        (shell("git log --diff-filter=D --format='%h %s%n%b' -- cache.py"),),
        say("The cache was removed because its lookups were too slow."),
    ),
    check=_check_history,
)

QUESTIONS = (PORT, REVIEW, NOTEBOOK, CALLERS, HELPERS, HISTORY)
