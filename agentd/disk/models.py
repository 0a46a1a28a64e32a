"""``models.yml`` of the configuration folder, and the keys that it points to."""

import re
from collections.abc import Mapping
from os.path import expanduser

from agentd.catalog.models import Models, Supplier, contradictions
from agentd.disk import document, handwritten
from agentd.disk.layout import Layout
from agentd.errors import Misconfigured, Mistake

KEY_LIMIT = 16 * 1024
"""The largest file with a key in it, in bytes."""


def load(layout: Layout) -> Models:
    """The models of the file; none when there is no file. Blocking.

    A file that holds a key itself must be readable by nobody else. Raises ``Misconfigured``
    with every mistake, or ``Unavailable``.
    """
    path = layout.models
    found = document.read(path, handwritten.LIMIT)
    if found is None:
        return Models()
    models = handwritten.load(path, found.data, Models, contradictions)
    if any(supplier.holds_key for supplier in models.suppliers.values()):
        document.read(path, handwritten.LIMIT, private=True)
    return models


def check(layout: Layout) -> None:
    """Raise what is wrong with ``models.yml``, or with a file that it names a key in. Blocking.

    Variables are not looked up: the daemon's environment is another than that of whoever asks.
    """
    mistakes: list[Mistake] = []
    for name, supplier in load(layout).suppliers.items():
        if supplier.key.startswith("file:"):
            try:
                supplier_key(name, supplier, {})
            except Misconfigured as error:
                mistakes += error.mistakes
    if mistakes:
        raise Misconfigured(mistakes)


def supplier_key(name: str, supplier: Supplier, environ: Mapping[str, str]) -> str:
    """The key of the supplier called ``name``, fetched anew at each use. Blocking.

    Empty when none is configured. Raises ``Misconfigured`` when it is not to be had, or when
    others could read its file; the key is never told.
    """
    kind, _, where = supplier.key.partition(":")
    if not supplier.key or supplier.holds_key:
        return supplier.key
    if kind == "env":
        key = environ.get(where, "")
        missing = f"the environment variable {where} is not set"
    else:
        key, missing = _of_file(name, expanduser(where)), f"{where} is empty"
    if not key:
        raise _wrong(name, f"{missing}; put the supplier's key there")
    if not re.fullmatch("[!-~]+", key):
        raise _wrong(name, f"what {kind}:{where} holds is no key: it has blanks or odd characters")
    return key


def _of_file(name: str, path: str) -> str:
    found = document.read(path, KEY_LIMIT, private=True)
    if found is None:
        raise _wrong(name, f"there is no file {path}; put the supplier's key there")
    return found.data.decode("utf-8", "replace").strip()


def _wrong(name: str, what: str) -> Misconfigured:
    return Misconfigured([Mistake(f"suppliers.{name}.key", 0, what)])
