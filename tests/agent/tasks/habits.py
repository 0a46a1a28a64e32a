"""Tasks: follow the project's instructions, recover from what fails, work with git and plans."""

import json

from tests.agent.tasks.task import (
    Commit,
    Outcome,
    Task,
    edit,
    read,
    require,
    say,
    shell,
    write,
)
from tests.supplier.steps import Call

_HEADER = "# Copyright Shop Ltd. All rights reserved.\n"


def _check_rules(outcome: Outcome) -> None:
    require(outcome.read("shop/tax.py").startswith(_HEADER), "shop/tax.py has no header")
    require("tax" in outcome.read("CHANGELOG.md"), "the changelog does not tell of it")
    outcome.run("from shop.tax import add_tax\nassert add_tax(100) == 119\n")


INSTRUCTIONS = Task(
    name="follow-instructions",
    prompt="Add shop/tax.py with add_tax(cents), which adds 19 % to a whole number, rounded.",
    files={
        "AGENTS.md": (
            "# For agents\n\n- Every Python file begins with the line of `shop/__init__.py`.\n"
            "- Every new module gets a line in CHANGELOG.md.\n"
        ),
        "CHANGELOG.md": "# Changes\n\n- basket: first version\n",
        "shop/__init__.py": _HEADER,
    },
    moves=(
        (read("shop/__init__.py"), read("CHANGELOG.md")),
        (
            write(
                "shop/tax.py",
                _HEADER + "\n\ndef add_tax(cents):\n    return round(cents * 119 / 100)\n",
            ),
            edit("CHANGELOG.md", "version\n", "version\n- tax: adds 19 %\n"),
        ),
        say("shop/tax.py is there, with its header and an entry in the changelog."),
    ),
    check=_check_rules,
)


def _check_nested(outcome: Outcome) -> None:
    source = outcome.read("api/orders.py")
    outcome.run(
        "from api.orders import count_orders\nassert count_orders([1, 2]) == {'count': 2}\n"
    )
    require("def count_orders(rows: " in source, "count_orders has no types")
    require("-> " in source.partition("count_orders")[2], "count_orders has no type of its result")
    require('"count_orders"' in source.partition("__all__")[2], "it is missing in __all__")


NESTED_INSTRUCTIONS = Task(
    name="instructions-of-a-folder",
    prompt='Add count_orders(rows) to api/orders.py: it returns {"count": how many}.',
    files={
        "AGENTS.md": "Keep it short.\n",
        "api/AGENTS.md": "Functions have type annotations, and public ones stand in `__all__`.\n",
        "api/__init__.py": "",
        "api/orders.py": (
            '__all__ = ["list_orders"]\n\n\n'
            "def list_orders(rows: list[int]) -> dict[str, list[int]]:\n"
            '    return {"orders": rows}\n'
        ),
    },
    moves=(
        (read("api/orders.py"),),
        (
            edit("api/orders.py", '["list_orders"]', '["count_orders", "list_orders"]'),
            edit(
                "api/orders.py",
                '    return {"orders": rows}\n',
                '    return {"orders": rows}\n\n\n'
                "def count_orders(rows: list[int]) -> dict[str, int]:\n"
                '    return {"count": len(rows)}\n',
            ),
        ),
        say("Added, with types and in __all__."),
    ),
    check=_check_nested,
)


_REPORT = """import json
import sys

try:
    settings = json.load(open("config.json"))
except FileNotFoundError:
    sys.exit("config.json is missing: copy config.example.json and set `year`")
if settings["year"] < 2000:
    sys.exit("config.json: `year` is not set")
with open("report.txt", "w") as file:
    file.write(f"Report {settings['year']}: {sum(settings['sales'])}\\n")
"""


def _check_recovery(outcome: Outcome) -> None:
    require(outcome.read("report.txt") == "Report 2024: 60\n", "the report is another one")
    outcome.require_unchanged("report.py", "config.example.json")


RECOVER = Task(
    name="recover-from-failures",
    prompt="Make the report for 2024 with report.py.",
    files={
        "report.py": _REPORT,
        "config.example.json": json.dumps({"year": 0, "sales": [10, 20, 30]}),
    },
    moves=(
        (shell("python3 report.py"),),
        (shell("cp config.example.json config.json && python3 report.py"),),
        (read("config.json"),),
        (edit("config.json", '"year": 0', '"year": 2024'), shell("python3 report.py")),
        (read("report.txt"),),
        say("report.txt is made; it needed a config.json."),
    ),
    check=_check_recovery,
    may_fail=frozenset({"shell"}),
)


_CONFLICT = """def ship(order):
<<<<<<< HEAD
    weigh(order)
    return "shipped by train"
=======
    insure(order)
    return "shipped by lorry"
>>>>>>> cheaper
"""


def _check_conflict(outcome: Outcome) -> None:
    outcome.run(
        "import shipping\n"
        "done = []\n"
        "shipping.weigh = lambda order: done.append('weigh')\n"
        "shipping.insure = lambda order: done.append('insure')\n"
        "assert shipping.ship(1) == 'shipped by lorry'\n"
        "assert sorted(done) == ['insure', 'weigh'], done\n"
    )


CONFLICT = Task(
    name="merge-conflict",
    prompt=("shipping.py has a merge conflict. Keep both steps, weighing first; we ship by lorry."),
    files={"shipping.py": _CONFLICT},
    moves=(
        (read("shipping.py"),),
        (
            write(
                "shipping.py",
                "def ship(order):\n    weigh(order)\n    insure(order)\n"
                '    return "shipped by lorry"\n',
            ),
        ),
        (shell("python3 -m py_compile shipping.py"),),
        say("Both steps are there, without markers."),
    ),
    check=_check_conflict,
)


def _check_commit(outcome: Outcome) -> None:
    require(outcome.git("log", "-1", "--format=%s") == "shop: sell milk", "its message differs")
    require(outcome.git("rev-list", "--count", "start..HEAD") == "1", "there is not one commit")
    files = outcome.git("diff", "--name-only", "start", "HEAD").split()
    require(files == ["shop.py"], f"the commit has {files}")
    require("notes" in outcome.git("status", "--short"), "notes.md is not left as it was")
    require(outcome.read("notes.md") == "private\n", "notes.md was changed")


COMMIT = Task(
    name="commit-a-part",
    prompt='Commit my change of shop.py as "shop: sell milk". Leave notes.md out and as it is.',
    files={"shop.py": "GOODS = ['tea']\n"},
    uncommitted={"shop.py": "GOODS = ['tea', 'milk']\n", "notes.md": "private\n"},
    moves=(
        (Call("git_status"), Call("git_diff")),
        (shell("git add shop.py && git commit --quiet --message 'shop: sell milk'"),),
        (Call("git_status"),),
        say("Committed; notes.md stays untracked."),
    ),
    check=_check_commit,
)


def _check_regression(outcome: Outcome) -> None:
    outcome.run("from rates import RATE, NAME\nassert RATE == 0.19\nassert NAME == 'VAT'\n")
    short = outcome.git("log", "--format=%h", "--grep", "Tidy up")
    outcome.require_reply(short[:7])


REGRESSION = Task(
    name="find-the-commit",
    prompt=(
        "RATE in rates.py was 0.19 once. Which commit changed it? Name its hash, and put the rate"
        " right without losing what else was changed."
    ),
    commits=(
        Commit("Rates", {"rates.py": "RATE = 0.19\nNAME = 'Tax'\n"}),
        Commit("Tidy up", {"rates.py": "RATE = 0.91\nNAME = 'Tax'\n", "a.txt": "a\n"}),
        Commit("Name it VAT", {"rates.py": "RATE = 0.91\nNAME = 'VAT'\n"}),
    ),
    files={"README.md": "Rates.\n"},
    moves=(
        (Call("git_log", {"path": "rates.py"}),),
        (shell("git log -S 0.91 --format='%h %s' -- rates.py | tail -n 1"),),
        (edit("rates.py", "0.91", "0.19"),),
        say("f6405cc: that commit swapped the digits. The rate is 0.19 again."),
    ),
    check=_check_regression,
)


_GEOMETRY = "\n\n".join(
    f"def {name}(w, h):\n    raise NotImplementedError\n"
    for name in ("area", "perimeter", "diagonal")
)


def _check_plan(outcome: Outcome) -> None:
    outcome.run(
        "from geometry import area, diagonal, perimeter\n"
        "assert (area(3, 4), perimeter(3, 4), diagonal(3, 4)) == (12, 14, 5)\n"
    )


def _plan(done: int) -> Call:
    steps = ("area", "perimeter", "diagonal")
    return Call(
        "update_todos",
        {
            "items": [
                {"text": text, "status": "completed" if number < done else "pending"}
                for number, text in enumerate(steps)
            ]
        },
    )


PLAN = Task(
    name="several-steps",
    prompt="Write the three functions of geometry.py (of a rectangle), one after the other.",
    files={"geometry.py": _GEOMETRY},
    moves=(
        (_plan(0), read("geometry.py")),
        (
            edit(
                "geometry.py",
                "area(w, h):\n    raise NotImplementedError",
                "area(w, h):\n    return w * h",
            ),
            _plan(1),
        ),
        (
            edit(
                "geometry.py",
                "perimeter(w, h):\n    raise NotImplementedError",
                "perimeter(w, h):\n    return 2 * (w + h)",
            ),
            _plan(2),
        ),
        (
            edit(
                "geometry.py",
                "diagonal(w, h):\n    raise NotImplementedError",
                "diagonal(w, h):\n    return (w * w + h * h) ** 0.5",
            ),
            _plan(3),
        ),
        say("All three are written."),
    ),
    check=_check_plan,
)


_SERVER = """import time

time.sleep(0.2)
print("token", hex(0x7F4410 + 1)[2:], flush=True)
while True:
    time.sleep(1)
"""


def _check_background(outcome: Outcome) -> None:
    require(outcome.read("token.txt").strip() == "7f4411", "token.txt has another token")
    outcome.require_unchanged("server.py")


BACKGROUND = Task(
    name="background-process",
    prompt=(
        "server.py prints a token when it has started, and runs for ever. Write the token to"
        " token.txt, and leave no server running."
    ),
    files={"server.py": _SERVER},
    moves=(
        (Call("start_process", {"command": "python3 server.py"}),),
        (Call("read_process", {"id": 1, "seconds": 60}),),
        (Call("stop_process", {"id": 1}), write("token.txt", "7f4411\n")),
        say("The token is in token.txt; the server is stopped."),
    ),
    check=_check_background,
)


def _check_translations(outcome: Outcome) -> None:
    english = json.loads(outcome.read("en.json"))
    for name in ("de", "fr"):
        texts = json.loads(outcome.read(f"{name}.json"))
        require(set(texts) == set(english), f"{name}.json has other keys")
        for key, text in english.items():
            holes = {word for word in text.split() if word.startswith("{")}
            require(all(hole in texts[key] for hole in holes), f"{name}.json, {key}: no {holes}")
    require(json.loads(outcome.read("de.json"))["bye"] == "Tschüss", "a translation was changed")


TRANSLATIONS = Task(
    name="missing-translations",
    prompt="Some texts of en.json are missing in de.json or fr.json. Add them, translated.",
    files={
        "en.json": json.dumps(
            {"hello": "Hello {name}", "bye": "Goodbye", "cart": "{count} things in your cart"},
            indent=2,
        ),
        "de.json": json.dumps(
            {"hello": "Hallo {name}", "bye": "Tschüss"}, indent=2, ensure_ascii=False
        ),
        "fr.json": json.dumps({"hello": "Bonjour {name}"}, indent=2),
    },
    moves=(
        (read("en.json"), read("de.json"), read("fr.json")),
        (
            edit(
                "de.json",
                '"Tschüss"',
                '"Tschüss",\n  "cart": "{count} Dinge in deinem Warenkorb"',
            ),
            edit(
                "fr.json",
                '"Bonjour {name}"',
                '"Bonjour {name}",\n  "bye": "Au revoir",\n'
                '  "cart": "{count} articles dans votre panier"',
            ),
        ),
        (shell("python3 -m json.tool de.json && python3 -m json.tool fr.json"),),
        say("One was missing in German, two in French."),
    ),
    check=_check_translations,
)


_LOG = "".join(
    f"2024-03-0{n % 9 + 1} {'ERROR' if n % 7 == 0 else 'INFO'} {('db', 'web', 'mail')[n % 3]}"
    f" request {n}\n"
    for n in range(700)
)


def _check_log(outcome: Outcome) -> None:
    rows = [line.split() for line in _LOG.splitlines()]
    wanted = {
        part: sum(row[1] == "ERROR" and row[2] == part for row in rows)
        for part in ("db", "web", "mail")
    }
    try:
        found = json.loads(outcome.read("errors.json"))
    except ValueError:
        found = None
    require(found == wanted, f"errors.json has {found}")
    outcome.require_unchanged("server.log")


LOG = Task(
    name="count-in-a-log",
    prompt='How many errors does each part have in server.log? Write errors.json as {"db": 1, …}.',
    files={"server.log": _LOG},
    moves=(
        (read("server.log", last=5),),
        (
            shell(
                "python3 -c '\nimport collections, json\n"
                'rows = [line.split() for line in open("server.log")]\n'
                'found = collections.Counter(row[2] for row in rows if row[1] == "ERROR")\n'
                'json.dump(found, open("errors.json", "w"))\n'
                "print(found)'"
            ),
        ),
        say("errors.json has the counts."),
    ),
    check=_check_log,
)

HABITS = (
    INSTRUCTIONS,
    NESTED_INSTRUCTIONS,
    RECOVER,
    CONFLICT,
    COMMIT,
    REGRESSION,
    PLAN,
    BACKGROUND,
    TRANSLATIONS,
    LOG,
)
