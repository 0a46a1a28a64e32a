"""Tasks: find what is wrong and mend it."""

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

TESTS = "python3 -m unittest -q"

_PAGES = '''"""Splits rows into pages."""


def paginate(rows, size):
    """Return the rows in lists of at most ``size``."""
    return [rows[i : i + size] for i in range(0, len(rows) - size, size)]
'''

_TEST_PAGES = """import unittest

from pages import paginate


class Pages(unittest.TestCase):
    def test_last_page_is_kept(self):
        self.assertEqual(paginate([1, 2, 3, 4, 5], 2), [[1, 2], [3, 4], [5]])

    def test_nothing(self):
        self.assertEqual(paginate([], 2), [])
"""


def _check_pages(outcome: Outcome) -> None:
    outcome.require_unchanged("test_pages.py")
    outcome.run(
        "from pages import paginate\n"
        "for n in range(12):\n"
        "    for size in range(1, 6):\n"
        "        pages = paginate(list(range(n)), size)\n"
        "        assert sum(pages, []) == list(range(n)), (n, size, pages)\n"
        "        assert all(len(page) == size for page in pages[:-1]), (n, size, pages)\n"
        "        assert all(pages), (n, size, pages)\n"
    )


FAILING_TEST = Task(
    name="failing-test",
    prompt="The tests fail. Find out why and fix the code, not the tests.",
    files={"pages.py": _PAGES, "test_pages.py": _TEST_PAGES},
    moves=(
        (shell(TESTS),),
        (read("pages.py"), read("test_pages.py")),
        (edit("pages.py", "len(rows) - size, size", "len(rows), size"),),
        (shell(TESTS),),
        say("The range ended a page early; the tests pass now."),
    ),
    check=_check_pages,
    may_fail=frozenset({"shell"}),
)


_ORDERS = """from decimal import Decimal


def load_orders(rows):
    orders = {}
    for row in rows:
        orders[row["id"]] = {"total": Decimal(row["total"]), "customer": row.get("customer")}
    return orders
"""
_LETTERS = """def greet(customer):
    return "Dear " + customer["name"].title()


def write_letter(order):
    return greet(order["customer"]) + f",\\nyou owe us {order['total']}."
"""
_TRACEBACK = """Since yesterday our nightly job dies with this. An order without a customer should
be greeted with "Dear customer". Please fix it.

Traceback (most recent call last):
  File "/srv/shop/nightly.py", line 9, in <module>
    print(write_letter(order))
  File "/srv/shop/letters.py", line 6, in write_letter
    return greet(order["customer"]) + f",\\nyou owe us {order['total']}."
  File "/srv/shop/letters.py", line 2, in greet
    return "Dear " + customer["name"].title()
TypeError: 'NoneType' object is not subscriptable
"""


def _check_letters(outcome: Outcome) -> None:
    outcome.run(
        "from letters import write_letter\n"
        "from orders import load_orders\n"
        "orders = load_orders([{'id': 1, 'total': '3'},\n"
        "    {'id': 2, 'total': '4', 'customer': {'name': 'ada lovelace'}}])\n"
        "assert write_letter(orders[1]).startswith('Dear customer,'), write_letter(orders[1])\n"
        "assert write_letter(orders[2]) == 'Dear Ada Lovelace,\\nyou owe us 4.'\n"
    )


TRACEBACK = Task(
    name="traceback",
    prompt=_TRACEBACK,
    files={"orders.py": _ORDERS, "letters.py": _LETTERS},
    moves=(
        (read("letters.py"), read("orders.py")),
        (
            edit(
                "letters.py",
                'def greet(customer):\n    return "Dear "',
                'def greet(customer):\n    if customer is None:\n        return "Dear customer"\n'
                '    return "Dear "',
            ),
        ),
        say("Orders without a customer are greeted with “Dear customer” now."),
    ),
    check=_check_letters,
)


_BASKET = """class Basket:
    def __init__(self, items=[]):
        self.items = items

    def add(self, item):
        self.items.append(item)
"""


def _check_basket(outcome: Outcome) -> None:
    outcome.run(
        "from basket import Basket\n"
        "first, second = Basket(), Basket()\n"
        "first.add('tea')\n"
        "assert second.items == [], second.items\n"
        "mine = ['milk']\n"
        "third = Basket(mine)\n"
        "third.add('sugar')\n"
        "assert third.items == ['milk', 'sugar'], third.items\n"
    )


SHARED_STATE = Task(
    name="shared-state",
    prompt="Customers see things in their baskets that others put in. Fix it.",
    files={"basket.py": _BASKET},
    moves=(
        (read("basket.py"),),
        (
            Call(
                "multi_edit",
                {
                    "path": "basket.py",
                    "edits": [
                        {"old": "items=[]", "new": "items=None"},
                        {
                            "old": "self.items = items",
                            "new": "self.items = [] if items is None else items",
                        },
                    ],
                },
            ),
        ),
        say("The default list was shared by all baskets; each has its own now."),
    ),
    check=_check_basket,
)


_MONEY = '''def split_bill(total, people):
    """Return what each pays, in euros with cents; all together pay the total."""
    share = round(total / people, 2)
    return [share] * people
'''


def _check_money(outcome: Outcome) -> None:
    outcome.run(
        "from decimal import Decimal\n"
        "from money import split_bill\n"
        "for cents in (1000, 1, 0, 9999, 101):\n"
        "    for people in (1, 3, 7):\n"
        "        total = Decimal(cents) / 100\n"
        "        shares = [Decimal(str(share)) for share in split_bill(total, people)]\n"
        "        assert len(shares) == people\n"
        "        assert sum(shares) == total, (total, shares)\n"
        "        assert max(shares) - min(shares) <= Decimal('0.01'), shares\n"
    )


CENTS = Task(
    name="lost-cents",
    prompt=(
        "split_bill(Decimal('10.00'), 3) loses a cent. Make the shares add up to the total, with"
        " shares that differ by at most one cent. Callers pass Decimal totals."
    ),
    files={"money.py": _MONEY},
    moves=(
        (read("money.py"),),
        (
            write(
                "money.py",
                "from decimal import Decimal\n\n\ndef split_bill(total, people):\n"
                '    """Return what each pays, in euros with cents; all together pay the'
                ' total."""\n'
                "    cents = int(total * 100)\n    share, left = divmod(cents, people)\n"
                "    return [Decimal(share + (i < left)) / 100 for i in range(people)]\n",
            ),
        ),
        (shell("python3 -c 'from money import *; print(split_bill(Decimal(\"10.00\"), 3))'"),),
        say("The remaining cents go to the first ones; the shares add up."),
    ),
    check=_check_money,
)


_USERS = """import sqlite3


def open_database():
    db = sqlite3.connect(":memory:")
    db.execute("create table users (id integer primary key, name text, secret text)")
    db.executemany("insert into users (name, secret) values (?, ?)",
                   [("ada", "a"), ("grace", "g"), ("o'brien", "o")])
    return db


def find_user(db, name):
    return db.execute(f"select id, name from users where name = '{name}'").fetchone()
"""


def _check_users(outcome: Outcome) -> None:
    outcome.run(
        "from users import find_user, open_database\n"
        "db = open_database()\n"
        "assert find_user(db, 'ada') == (1, 'ada')\n"
        'assert find_user(db, "o\'brien") == (3, "o\'brien")\n'
        "attack = \"' union select id, secret from users where name = 'ada\"\n"
        "assert find_user(db, attack) is None\n"
    )


INJECTION = Task(
    name="sql-injection",
    prompt="A user named o'brien cannot log in: find_user fails. Fix the cause.",
    files={"users.py": _USERS},
    moves=(
        (read("users.py"),),
        (
            edit(
                "users.py",
                "f\"select id, name from users where name = '{name}'\").fetchone()",
                '"select id, name from users where name = ?", (name,)).fetchone()',
            ),
        ),
        say("The name was pasted into the SQL, which was an injection too; it is a parameter now."),
    ),
    check=_check_users,
)


_SERVE = '''import os


def read_page(root, name):
    """Return the page of this name below the folder; raise FileNotFoundError otherwise."""
    with open(os.path.join(root, name)) as file:
        return file.read()
'''


def _check_traversal(outcome: Outcome) -> None:
    outcome.run(
        "import os, tempfile\n"
        "from serve import read_page\n"
        "with tempfile.TemporaryDirectory() as top:\n"
        "    root = os.path.join(top, 'pages')\n"
        "    os.makedirs(os.path.join(root, 'a'))\n"
        "    os.makedirs(root + '-private')\n"
        "    for path in ('secret', 'pages/a/b.txt', 'pages-private/c'):\n"
        "        with open(os.path.join(top, path), 'w') as file:\n"
        "            file.write(path)\n"
        "    os.symlink(os.path.join(top, 'secret'), os.path.join(root, 'link'))\n"
        "    assert read_page(root, 'a/b.txt') == 'pages/a/b.txt'\n"
        "    outside = ('../secret', os.path.join(top, 'secret'), 'a/../../secret', 'link',\n"
        "               '../pages-private/c')\n"
        "    for name in outside:\n"
        "        try:\n"
        "            read_page(root, name)\n"
        "        except FileNotFoundError:\n"
        "            continue\n"
        "        raise AssertionError(name)\n"
    )


TRAVERSAL = Task(
    name="path-traversal",
    prompt=(
        "read_page in serve.py gives away files outside its folder. Anything outside, also through"
        " symbolic links, must raise FileNotFoundError."
    ),
    files={"serve.py": _SERVE},
    moves=(
        (read("serve.py"),),
        (
            edit(
                "serve.py",
                "    with open(os.path.join(root, name)) as file:",
                "    top = os.path.realpath(root)\n"
                "    path = os.path.realpath(os.path.join(top, name))\n"
                "    if os.path.commonpath((top, path)) != top:\n"
                "        raise FileNotFoundError(name)\n    with open(path) as file:",
            ),
        ),
        say("Paths are resolved first, and what lies outside is not found."),
    ),
    check=_check_traversal,
)


_SLUG = '''import re


def slugify(title):
    """Return a title for an address: lower case letters and digits with single hyphens between."""
    return re.sub("[^a-z0-9]", "-", title.lower())
'''
_TEST_SLUG = """import unittest

from slug import slugify


class Slugs(unittest.TestCase):
    def test_words(self):
        self.assertEqual(slugify("Hello World"), "hello-world")
"""


def _check_slug(outcome: Outcome) -> None:
    outcome.run(
        "from slug import slugify\n"
        "for title, slug in (('Hello World', 'hello-world'), ('  C++ & Rust!  ', 'c-rust'),\n"
        "                    ('a--b', 'a-b'), ('!!!', ''), ('2024 in review', '2024-in-review')):\n"
        "    assert slugify(title) == slug, (title, slugify(title))\n"
    )
    tests = outcome.read("test_slug.py")
    require(tests.count("def test_") >= 2, "there is no new test")
    outcome.run_shell(TESTS)


ADD_TEST = Task(
    name="bug-with-test",
    prompt=(
        'slugify("  C++ & Rust!  ") gives "--c-----rust---" instead of "c-rust". Fix it and add a'
        " test for it to test_slug.py."
    ),
    files={"slug.py": _SLUG, "test_slug.py": _TEST_SLUG},
    moves=(
        (read("slug.py"), read("test_slug.py")),
        (
            edit(
                "slug.py",
                're.sub("[^a-z0-9]", "-", title.lower())',
                're.sub("[^a-z0-9]+", "-", title.lower()).strip("-")',
            ),
            edit(
                "test_slug.py",
                '"hello-world")\n',
                '"hello-world")\n\n    def test_signs(self):\n'
                '        self.assertEqual(slugify("  C++ & Rust!  "), "c-rust")\n',
            ),
        ),
        (shell(TESTS),),
        say("Fixed, with a test."),
    ),
    check=_check_slug,
)


_ORDER_MODULE = (
    "from shop.stock import Stock\n\n\nclass Order:\n    def __init__(self, stock: Stock):\n"
    "        self.stock = stock\n"
)
_STOCK_MODULE = (
    "from shop.order import Order\n\n\nclass Stock:\n    def reserve(self, order):\n"
    "        return isinstance(order, Order)\n"
)


def _check_circle(outcome: Outcome) -> None:
    for first in ("order", "stock"):
        outcome.run(
            f"import shop.{first}\n"
            "from shop.order import Order\n"
            "from shop.stock import Stock\n"
            "stock = Stock()\n"
            "assert stock.reserve(Order(stock)) is True\n"
            "assert stock.reserve(3) is False\n"
        )


CIRCULAR_IMPORT = Task(
    name="circular-import",
    prompt="`python -c 'import shop.order'` fails with an ImportError. Fix it.",
    files={"shop/__init__.py": "", "shop/order.py": _ORDER_MODULE, "shop/stock.py": _STOCK_MODULE},
    moves=(
        (shell("python3 -c 'import shop.order'"),),
        (read("shop/order.py"), read("shop/stock.py")),
        (
            edit(
                "shop/order.py",
                "from shop.stock import Stock\n",
                "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n"
                "    from shop.stock import Stock\n",
            ),
            edit("shop/order.py", "stock: Stock", 'stock: "Stock"'),
        ),
        (shell("python3 -c 'import shop.order, shop.stock'"),),
        say("The import was needed for a type only."),
    ),
    check=_check_circle,
    may_fail=frozenset({"shell"}),
)


_BACKUP = '#!/bin/sh\nmkdir -p "$2"\nfor file in $(ls $1); do\n    cp $1/$file $2/\ndone\n'


def _check_backup(outcome: Outcome) -> None:
    outcome.run_shell(
        'set -e; top=$(mktemp -d); mkdir "$top/my files"; cd "$top/my files";'
        " echo 1 > 'a b.txt'; echo 2 > '*.txt'; echo 3 > plain; cd - > /dev/null;"
        ' sh backup.sh "$top/my files" "$top/to here";'
        ' test "$(cat "$top/to here/a b.txt")" = 1; test "$(cat "$top/to here/*.txt")" = 2;'
        ' test "$(cat "$top/to here/plain")" = 3;'
        ' test "$(ls "$top/to here" | wc -l)" = 3; rm -r "$top"'
    )


QUOTING = Task(
    name="shell-quoting",
    prompt="backup.sh breaks when a file or folder has a space in its name. Fix it.",
    files={"backup.sh": _BACKUP},
    moves=(
        (read("backup.sh"),),
        (
            write(
                "backup.sh",
                '#!/bin/sh\nmkdir -p "$2"\nfor file in "$1"/*; do\n    cp "$file" "$2/"\ndone\n',
            ),
        ),
        (shell("sh -n backup.sh"),),
        say("All names are quoted now, and the loop goes over the files themselves."),
    ),
    check=_check_backup,
)


_UNIQUE = '''def unique(rows):
    """Return the rows in their order, each once."""
    found = []
    for row in rows:
        if row not in found:
            found.append(row)
    return found
'''


def _check_unique(outcome: Outcome) -> None:
    outcome.run(
        "from unique import unique\n"
        "class Counted:\n"
        "    compared = 0\n"
        "    def __init__(self, n): self.n = n\n"
        "    def __hash__(self): return hash(self.n)\n"
        "    def __eq__(self, other):\n"
        "        Counted.compared += 1\n"
        "        return self.n == other.n\n"
        "rows = [Counted(i % 2000) for i in range(4000)]\n"
        "assert [row.n for row in unique(rows)] == list(range(2000))\n"
        "assert Counted.compared < 20_000, Counted.compared\n"
        "assert unique(['b', 'a', 'b']) == ['b', 'a']\n"
    )


QUADRATIC = Task(
    name="quadratic",
    prompt="unique() takes minutes for 100,000 rows, which are all hashable. Make it fast.",
    files={"unique.py": _UNIQUE},
    moves=(
        (read("unique.py"),),
        (
            write(
                "unique.py",
                'def unique(rows):\n    """Return the rows in their order, each once."""\n'
                "    return list(dict.fromkeys(rows))\n",
            ),
        ),
        say("It asked the whole list for each row; a dict keeps the order and asks once."),
    ),
    check=_check_unique,
)


_PAGE = """def render_comment(author, text):
    return f"<article><h2>{author}</h2><p>{text}</p></article>"
"""


def _check_escape(outcome: Outcome) -> None:
    outcome.run(
        "from page import render_comment\n"
        "made = render_comment('<b>', '<script>alert(1)</script> & \"tea\"')\n"
        "assert '<script' not in made and '<b>' not in made, made\n"
        "assert '&lt;script&gt;' in made and '&amp; ' in made, made\n"
        "assert render_comment('ada', 'hi') == '<article><h2>ada</h2><p>hi</p></article>'\n"
    )


ESCAPING = Task(
    name="html-escaping",
    prompt="Someone put a script into a comment. Make render_comment safe.",
    files={"page.py": _PAGE},
    moves=(
        (search("render_comment"),),
        (read("page.py"),),
        (
            write(
                "page.py",
                "from html import escape\n\n\ndef render_comment(author, text):\n"
                '    return f"<article><h2>{escape(author)}</h2><p>{escape(text)}</p></article>"\n',
            ),
        ),
        say("Both texts are escaped."),
    ),
    check=_check_escape,
)


_ORDERING = '''def order_steps(needs):
    """Return all steps, each after those that it needs; raise ValueError for a circle."""
    done = []
    for step, needed in needs.items():
        for other in needed:
            if other not in done:
                done.append(other)
        if step not in done:
            done.append(step)
    return done
'''


def _check_ordering(outcome: Outcome) -> None:
    outcome.run(
        "from steps import order_steps\n"
        "needs = {'ship': ['pack'], 'pack': ['pay', 'pick'], 'pick': ['order'], 'pay': ['order'],\n"
        "         'order': []}\n"
        "found = order_steps(needs)\n"
        "assert sorted(found) == sorted(needs), found\n"
        "for step, needed in needs.items():\n"
        "    assert all(found.index(one) < found.index(step) for one in needed), found\n"
        "try:\n"
        "    order_steps({'a': ['b'], 'b': ['a']})\n"
        "except ValueError:\n"
        "    pass\n"
        "else:\n"
        "    raise AssertionError('no ValueError for a circle')\n"
    )


ORDERING = Task(
    name="topological-order",
    prompt="order_steps puts `pack` before `pay`. It should do what its docstring says.",
    files={"steps.py": _ORDERING},
    moves=(
        (read("steps.py"),),
        (
            write(
                "steps.py",
                "from graphlib import CycleError, TopologicalSorter\n\n\ndef order_steps(needs):\n"
                '    """Return all steps, each after those that it needs; raise ValueError for a'
                ' circle."""\n    try:\n'
                "        return list(TopologicalSorter(needs).static_order())\n"
                "    except CycleError as error:\n"
                '        raise ValueError(f"a circle: {error.args[1]}") from error\n',
            ),
        ),
        say("The standard library sorts it, and a circle raises ValueError."),
    ),
    check=_check_ordering,
)

BUGS = (
    FAILING_TEST,
    TRACEBACK,
    SHARED_STATE,
    CENTS,
    INJECTION,
    TRAVERSAL,
    ADD_TEST,
    CIRCULAR_IMPORT,
    QUOTING,
    QUADRATIC,
    ESCAPING,
    ORDERING,
)
