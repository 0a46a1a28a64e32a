"""Tasks: change or build something across a project."""

import json

from tests.agent.tasks.task import (
    Outcome,
    Task,
    edit,
    read,
    require,
    say,
    search,
    shell,
    write,
)
from tests.supplier.steps import Call

_PRICES = "def get_price(name):\n    return {'tea': 3, 'milk': 1}[name]\n"
_INVOICE = (
    "from shop.prices import get_price\n\n\ndef total(names):\n"
    "    return sum(get_price(name) for name in names)\n"
)
_LABELS = (
    "import shop.prices\n\n\ndef label(name):\n"
    '    """Not get_price_text, which is another thing."""\n'
    "    return f'{name}: {shop.prices.get_price(name)}'\n\n\n"
    "def get_price_text(name):\n    return label(name)\n"
)


def _check_rename(outcome: Outcome) -> None:
    outcome.run(
        "import shop.prices\n"
        "from shop.invoice import total\n"
        "from shop.labels import get_price_text, label\n"
        "assert not hasattr(shop.prices, 'get_price')\n"
        "assert shop.prices.look_up_price('tea') == 3\n"
        "assert total(['tea', 'milk']) == 4\n"
        "assert label('tea') == get_price_text('tea') == 'tea: 3'\n"
    )
    require("`look_up_price`" in outcome.read("README.md"), "the README names the old function")


RENAME = Task(
    name="rename-across-files",
    prompt="Rename get_price to look_up_price everywhere, documentation too.",
    files={
        "shop/__init__.py": "",
        "shop/prices.py": _PRICES,
        "shop/invoice.py": _INVOICE,
        "shop/labels.py": _LABELS,
        "README.md": "Prices come from `get_price`.\n",
    },
    moves=(
        (search("get_price", whole_word=True),),
        (
            edit("shop/prices.py", "get_price", "look_up_price"),
            Call(
                "edit_file",
                {
                    "path": "shop/invoice.py",
                    "old": "get_price",
                    "new": "look_up_price",
                    "all": True,
                },
            ),
            edit("shop/labels.py", "shop.prices.get_price(", "shop.prices.look_up_price("),
            edit("README.md", "`get_price`", "`look_up_price`"),
        ),
        (search("get_price", whole_word=True),),
        say("Renamed in four files."),
    ),
    check=_check_rename,
)


_FIRST_MIGRATION = "create table users (id integer primary key, name text not null);\n"
_SECOND_MIGRATION = "insert into users (name) values ('ada'), ('grace');\n"
_MIGRATE = '''"""Applies migrations/NNN_*.sql in their order to a database."""

import pathlib
import sqlite3


def migrate(db):
    for path in sorted(pathlib.Path("migrations").glob("*.sql")):
        db.executescript(path.read_text())
'''


def _check_migration(outcome: Outcome) -> None:
    outcome.require_unchanged("migrate.py", "migrations/001_users.sql", "migrations/002_first.sql")
    outcome.run(
        "import sqlite3\n"
        "from migrate import migrate\n"
        "db = sqlite3.connect(':memory:')\n"
        "migrate(db)\n"
        "assert db.execute('select name, active from users order by id').fetchall() == ["
        "('ada', 1), ('grace', 1)]\n"
        "db.execute(\"insert into users (name) values ('linus')\")\n"
        "assert db.execute(\"select active from users where name = 'linus'\").fetchone() == (1,)\n"
        "try:\n"
        "    db.execute(\"insert into users (name, active) values ('x', null)\")\n"
        "except sqlite3.IntegrityError:\n"
        "    pass\n"
        "else:\n"
        "    raise AssertionError('active may be null')\n"
    )
    added = [path for path in outcome.list_files() if path.startswith("migrations/003_")]
    require(len(added) == 1, "there is no migration 003")


MIGRATION = Task(
    name="migration",
    prompt=(
        "Users need a column `active` (integer, never null), 1 for everyone who is there and by"
        " default. Write the migration as this project does."
    ),
    files={
        "migrate.py": _MIGRATE,
        "migrations/001_users.sql": _FIRST_MIGRATION,
        "migrations/002_first.sql": _SECOND_MIGRATION,
    },
    moves=(
        (Call("list_files", {"depth": 2}),),
        (read("migrate.py"), read("migrations/001_users.sql")),
        (
            write(
                "migrations/003_active.sql",
                "alter table users add column active integer not null default 1;\n",
            ),
        ),
        (
            shell(
                "python3 -c 'import sqlite3, migrate;"
                ' migrate.migrate(sqlite3.connect(":memory:"))\''
            ),
        ),
        say("Migration 003 adds the column."),
    ),
    check=_check_migration,
)


_COUNT = """import argparse


def count(path):
    with open(path) as file:
        text = file.read()
    return {"lines": text.count("\\n"), "words": len(text.split())}


def main(argv=None):
    parser = argparse.ArgumentParser(description="Count lines and words.")
    parser.add_argument("path")
    args = parser.parse_args(argv)
    found = count(args.path)
    print(f"{found['lines']} lines, {found['words']} words")


if __name__ == "__main__":
    main()
"""


def _check_option(outcome: Outcome) -> None:
    plain = outcome.run_shell("printf 'a b\\nc\\n' > /tmp/$$; python3 count.py /tmp/$$; rm /tmp/$$")
    require(plain == "2 lines, 3 words\n", f"without --json it writes {plain!r}")
    made = outcome.run_shell(
        "printf 'a b\\nc\\n' > /tmp/$$; python3 count.py --json /tmp/$$; rm /tmp/$$"
    )
    try:
        found = json.loads(made)
    except ValueError:
        found = made
    require(found == {"lines": 2, "words": 3}, f"with --json it writes {made!r}")
    require("--json" in outcome.read("README.md"), "the README does not tell of --json")


OPTION = Task(
    name="command-line-option",
    prompt=(
        "Give count.py an option --json that prints the counts as JSON; tell of it in the README."
    ),
    files={"count.py": _COUNT, "README.md": "# count\n\n    python3 count.py FILE\n"},
    moves=(
        (read("count.py"), read("README.md")),
        (
            Call(
                "multi_edit",
                {
                    "path": "count.py",
                    "edits": [
                        {"old": "import argparse\n", "new": "import argparse\nimport json\n"},
                        {
                            "old": "    args = parser",
                            "new": '    parser.add_argument("--json", action="store_true")\n'
                            "    args = parser",
                        },
                        {
                            "old": "    print(f",
                            "new": "    if args.json:\n        print(json.dumps(found))\n"
                            "        return\n    print(f",
                        },
                    ],
                },
            ),
            edit("README.md", "FILE\n", "FILE\n    python3 count.py --json FILE\n"),
        ),
        (shell("python3 count.py --json README.md"),),
        say("Done."),
    ),
    check=_check_option,
)


_SHAPES = """import math

UNIT = "cm"


class Circle:
    def __init__(self, radius):
        self.radius = radius

    def area(self):
        return math.pi * self.radius**2


class Square:
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side**2


def describe(shape):
    return f"{type(shape).__name__}: {shape.area():.1f} {UNIT}²"
"""


def _check_split(outcome: Outcome) -> None:
    outcome.run(
        "import shapes, circle\n"
        "assert circle.Circle.__module__ == 'circle'\n"
        "assert shapes.Square.__module__ == 'shapes'\n"
        "assert shapes.Circle is circle.Circle\n"
        "assert shapes.describe(circle.Circle(1)) == 'Circle: 3.1 cm²'\n"
    )
    require("class Circle" not in outcome.read("shapes.py"), "Circle is still in shapes.py")
    require("import math" not in outcome.read("shapes.py"), "shapes.py has an unused import")


SPLIT = Task(
    name="move-a-class",
    prompt=(
        "Move Circle into a module circle.py. `from shapes import Circle` must go on working; leave"
        " no unused imports."
    ),
    files={"shapes.py": _SHAPES},
    moves=(
        (Call("outline_file", {"path": "shapes.py"}), read("shapes.py")),
        (
            Call(
                "apply_patch",
                {
                    "patch": "*** Begin Patch\n*** Add File: circle.py\n+import math\n+\n+\n"
                    "+class Circle:\n+    def __init__(self, radius):\n"
                    "+        self.radius = radius\n+\n+    def area(self):\n"
                    "+        return math.pi * self.radius**2\n"
                    "*** Update File: shapes.py\n@@\n-import math\n+from circle import Circle\n \n"
                    '+__all__ = ["Circle", "Square", "describe"]\n+\n'
                    ' UNIT = "cm"\n \n \n-class Circle:\n-    def __init__(self, radius):\n'
                    "-        self.radius = radius\n-\n-    def area(self):\n"
                    "-        return math.pi * self.radius**2\n-\n-\n class Square:\n"
                    "*** End Patch\n"
                },
            ),
        ),
        (shell("python3 -c 'from shapes import *; print(describe(Circle(1)))'"),),
        say("Circle lives in circle.py; shapes.py hands it on."),
    ),
    check=_check_split,
)


_UTIL = '''"""Helpers."""


def double(n):
    return 2 * n


def old_double(n):
    return n + n


def half(n):
    return n / 2
'''


def _check_dead(outcome: Outcome) -> None:
    outcome.run("import util\nassert not hasattr(util, 'old_double')\nassert util.half(4) == 2\n")
    outcome.run("from plugins import REGISTRY\nassert REGISTRY['twice'](3) == 6\n")
    require("old_double" not in outcome.read("test_util.py"), "its test is still there")
    outcome.run_shell("python3 -m unittest -q")


DEAD_CODE = Task(
    name="dead-code",
    prompt="Which functions of util.py does nothing but their tests use? Remove them, with tests.",
    files={
        "util.py": _UTIL,
        "main.py": "from util import half\n\nprint(half(4))\n",
        "plugins.py": 'import util\n\nREGISTRY = {"twice": getattr(util, "dou" + "ble")}\n',
        "test_util.py": (
            "import unittest\n\nimport util\n\n\nclass Util(unittest.TestCase):\n"
            "    def test_double(self):\n        self.assertEqual(util.double(2), 4)\n\n"
            "    def test_old_double(self):\n        self.assertEqual(util.old_double(2), 4)\n"
        ),
    },
    moves=(
        (search("double|half", regex=True), read("plugins.py")),
        (read("util.py"), read("test_util.py")),
        (
            edit("util.py", "def old_double(n):\n    return n + n\n\n\n", ""),
            edit(
                "test_util.py",
                "\n    def test_old_double(self):\n"
                "        self.assertEqual(util.old_double(2), 4)\n",
                "",
            ),
        ),
        (shell("python3 -m unittest -q && python3 -c 'import plugins'"),),
        say("Only old_double: double is used by plugins.py, under a name that is put together."),
    ),
    check=_check_dead,
)


_SETTINGS = """{
    "name": "shop",
    "retries": 3,
    "hosts": ["a.example", "b.example"],
    "note": "Grüße"
}
"""


def _check_json(outcome: Outcome) -> None:
    wanted = _SETTINGS.replace('"retries": 3', '"retries": 5').replace(
        '"b.example"]', '"b.example", "c.example"]'
    )
    require(outcome.read("settings.json") == wanted, "more or less than that was changed")


JSON_EDIT = Task(
    name="small-edit-in-json",
    prompt=(
        "Set retries to 5 in settings.json and add the host c.example at the end. Change nothing"
        " else in the file, not its format either."
    ),
    files={"settings.json": _SETTINGS},
    moves=(
        (read("settings.json"),),
        (
            edit("settings.json", '"retries": 3', '"retries": 5'),
            edit("settings.json", '"b.example"]', '"b.example", "c.example"]'),
        ),
        say("Both are set."),
    ),
    check=_check_json,
)


_LONG = "".join(f"LIMIT_{n} = {n * 7 % 1000}\n" for n in range(3000))


def _check_long(outcome: Outcome) -> None:
    wanted = _LONG.replace("LIMIT_1741 = 187\n", "LIMIT_1741 = 4096\n")
    require(outcome.read("limits.py") == wanted, "limits.py is not as it should be")


LONG_FILE = Task(
    name="long-file",
    prompt="Set LIMIT_1741 in limits.py to 4096.",
    files={"limits.py": _LONG},
    moves=(
        (search("LIMIT_1741 ", path="limits.py"),),
        (edit("limits.py", "LIMIT_1741 = 187\n", "LIMIT_1741 = 4096\n"),),
        say("It is 4096 now; it was 187."),
    ),
    check=_check_long,
)


_MENU = "Tea;3\r\nCafé;4\r\nMilk;1\r\n"


def _check_line_ends(outcome: Outcome) -> None:
    require(
        outcome.read("menu.csv") == "Tea;3\r\nCafé;5\r\nMilk;1\r\n",
        "menu.csv differs in more than the price, such as in its line ends",
    )


LINE_ENDS = Task(
    name="line-ends",
    prompt="Coffee (Café) costs 5 now; change it in menu.csv. The till needs the file's line ends.",
    files={"menu.csv": _MENU},
    moves=(
        (read("menu.csv"),),
        (edit("menu.csv", "Café;4", "Café;5"),),
        (shell("od -c menu.csv | head"),),
        say("The price is 5; line ends are as they were."),
    ),
    check=_check_line_ends,
)


_MAKEFILE = "all: build\n\nbuild:\n\tmkdir -p out\n\techo built > out/app\n"


def _check_make(outcome: Outcome) -> None:
    makefile = outcome.read("Makefile")
    require("\nclean:" in makefile, "there is no target `clean`")
    require(".PHONY" in makefile, "`clean` is not phony")
    rule = makefile.partition("\nclean:")[2].partition("\n\n")[0].splitlines()[1:]
    require(bool(rule) and all(line.startswith("\t") for line in rule), "its rule has no tab")
    require("out" in "".join(rule), "its rule leaves `out`")


MAKE_TARGET = Task(
    name="makefile-target",
    prompt="Add a phony target `clean` to the Makefile that removes what `build` makes.",
    files={"Makefile": _MAKEFILE},
    moves=(
        (read("Makefile"),),
        (edit("Makefile", "> out/app\n", "> out/app\n\n.PHONY: clean\nclean:\n\trm -rf out\n"),),
        (shell("command -v make > /dev/null && make --dry-run clean || true"),),
        say("`make clean` removes `out`."),
    ),
    check=_check_make,
)


_RETRY_SPEC = """# retry

`retry(call, attempts, sleep)` calls `call()` until it returns, at most `attempts` times, and
returns its result.

- After the n-th failure (from 1) it waits `sleep(0.1 * 2 ** (n - 1))`, but never more than 2
  seconds, and not after the last.
- Only `ConnectionError` is tried again; every other exception goes through at once.
- When all attempts fail, the last exception is raised.
- `attempts` below 1 is a `ValueError`, and nothing is called.
"""


def _check_retry(outcome: Outcome) -> None:
    outcome.run(
        "from retry import retry\n"
        "def failing(n, kind=ConnectionError):\n"
        "    def call():\n"
        "        calls.append(1)\n"
        "        if len(calls) <= n: raise kind(len(calls))\n"
        "        return 'done'\n"
        "    return call\n"
        "calls, waits = [], []\n"
        "assert retry(failing(7), 8, waits.append) == 'done'\n"
        "assert [round(wait, 3) for wait in waits] == [0.1, 0.2, 0.4, 0.8, 1.6, 2, 2], waits\n"
        "for n, attempts, kind, made, slept in ((9, 3, ConnectionError, 3, 2),\n"
        "        (9, 3, KeyError, 1, 0), (0, 0, ValueError, 0, 0)):\n"
        "    calls, waits = [], []\n"
        "    try:\n"
        "        retry(failing(n, kind), attempts, waits.append)\n"
        "    except kind as error:\n"
        "        assert not made or error.args == (made,)\n"
        "    else:\n"
        "        raise AssertionError((n, attempts))\n"
        "    assert (len(calls), len(waits)) == (made, slept), (calls, waits)\n"
    )


FROM_SPECIFICATION = Task(
    name="from-a-specification",
    prompt="Write retry.py as docs/retry.md describes it.",
    files={"docs/retry.md": _RETRY_SPEC},
    moves=(
        (read("docs/retry.md"),),
        (
            write(
                "retry.py",
                "def retry(call, attempts, sleep):\n    if attempts < 1:\n"
                '        raise ValueError("attempts must be at least 1")\n'
                "    for n in range(1, attempts + 1):\n        try:\n            return call()\n"
                "        except ConnectionError:\n            if n == attempts:\n"
                "                raise\n            sleep(min(0.1 * 2 ** (n - 1), 2))\n",
            ),
        ),
        (shell("python3 -c 'from retry import retry; print(retry(lambda: 1, 1, print))'"),),
        say("retry.py is there."),
    ),
    check=_check_retry,
)


def _check_version(outcome: Outcome) -> None:
    require('version = "1.5.0"' in outcome.read("pyproject.toml"), "pyproject.toml")
    require('python = ">=1.4.2"' in outcome.read("pyproject.toml"), "another number was changed")
    require('__version__ = "1.5.0"' in outcome.read("shop/__init__.py"), "shop/__init__.py")
    require("shop==1.5.0" in outcome.read("README.md"), "README.md")
    changes = outcome.read("CHANGELOG.md")
    require(changes.index("## 1.5.0") < changes.index("## 1.4.2"), "CHANGELOG.md")
    require("- Tea\n" in changes, "CHANGELOG.md lost an entry")


VERSION = Task(
    name="version-bump",
    prompt="Prepare the release 1.5.0: the version wherever it stands, and the changelog.",
    files={
        "pyproject.toml": (
            '[project]\nname = "shop"\nversion = "1.4.2"\n\n[other]\npython = ">=1.4.2"\n'
        ),
        "shop/__init__.py": '__version__ = "1.4.2"\n',
        "README.md": "    pip install shop==1.4.2\n",
        "CHANGELOG.md": "# Changes\n\n## Unreleased\n\n- Milk\n\n## 1.4.2\n\n- Tea\n",
    },
    moves=(
        (search("1.4.2"), read("CHANGELOG.md")),
        (
            edit("pyproject.toml", 'version = "1.4.2"', 'version = "1.5.0"'),
            edit("shop/__init__.py", "1.4.2", "1.5.0"),
            edit("README.md", "1.4.2", "1.5.0"),
            edit("CHANGELOG.md", "## Unreleased", "## 1.5.0"),
        ),
        say("Four files; the `python` in [other] is another thing."),
    ),
    check=_check_version,
)


def _check_move(outcome: Outcome) -> None:
    require(not (outcome.root / "helpers.py").exists(), "helpers.py is still there")
    outcome.run("from lib.text import shout\nassert shout('a') == 'A!'\n")
    require(outcome.run_shell("python3 main.py").strip() == "HELLO!", "main.py does not run")
    outcome.git("add", "--all")
    moved = outcome.git("diff", "--cached", "--find-renames=60", "--name-status", "start")
    require("\thelpers.py\tlib/text.py" in moved, "git does not see it as a move")


MOVE = Task(
    name="move-a-file",
    prompt="helpers.py should be lib/text.py. Move it and change who uses it.",
    files={
        "helpers.py": (
            "def shout(text):\n    return text.upper() + '!'\n\n\n"
            "def whisper(text):\n    return text.lower()\n"
        ),
        "main.py": "from helpers import shout\n\nprint(shout('hello'))\n",
    },
    moves=(
        (search("helpers"), read("helpers.py")),
        (
            Call(
                "apply_patch",
                {
                    "patch": "*** Begin Patch\n*** Update File: helpers.py\n"
                    "*** Move to: lib/text.py\n*** Add File: lib/__init__.py\n"
                    '+"""The library."""\n'
                    "*** Update File: main.py\n@@\n-from helpers import shout\n"
                    "+from lib.text import shout\n*** End Patch\n"
                },
            ),
        ),
        (shell("python3 main.py"),),
        say("Moved."),
    ),
    check=_check_move,
)

CHANGES = (
    RENAME,
    MIGRATION,
    OPTION,
    SPLIT,
    DEAD_CODE,
    JSON_EDIT,
    LONG_FILE,
    LINE_ENDS,
    MAKE_TARGET,
    FROM_SPECIFICATION,
    VERSION,
    MOVE,
)
