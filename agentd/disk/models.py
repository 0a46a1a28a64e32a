"""``models.yml`` of the configuration folder, and the keys that it points to."""

from collections.abc import Collection, Mapping

from agentd.catalog.models import Models, Supplier, contradictions
from agentd.catalog.models import strays as stray_places
from agentd.disk import document, handwritten, secret
from agentd.disk.layout import Layout
from agentd.errors import Misconfigured, Mistake


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


def strays(layout: Layout, channels: Collection[str]) -> tuple[Mistake, ...]:
    """What of ``models.yml`` does not fit the channels of these names, with its lines. Blocking.

    The rest of it holds all the same: a way to a channel that is not there is left out. Raises
    as ``load`` when the file has mistakes of its own.
    """
    load(layout)
    found = document.read(layout.models, handwritten.LIMIT)
    data = found.data if found else b""
    try:
        handwritten.load(layout.models, data, Models, lambda models: stray_places(models, channels))
    except Misconfigured as error:
        return tuple(error.mistakes)
    return ()


def supplier_key(name: str, supplier: Supplier, environ: Mapping[str, str]) -> str:
    """The key of the supplier called ``name``, fetched anew at each use. Blocking.

    Empty when none is configured. Raises ``Misconfigured`` when it is not to be had, or when
    others could read its file; the key is never told.
    """
    return secret.resolve(supplier.key, environ, f"suppliers.{name}.key", "the supplier's")
