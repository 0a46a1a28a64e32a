"""``models.yml`` of the configuration folder, and the keys that it points to."""

from collections.abc import Collection, Mapping

from agentd.core.errors import ConfigError, ConfigProblem
from agentd.models.model import Models, Supplier, validate
from agentd.models.model import find_unknown_channels as stray_places
from agentd.storage import document, secret_ref
from agentd.storage.layout import Layout
from agentd.storage.yaml import reader as yaml_reader


def load(layout: Layout) -> Models:
    """Return the models of the file; none when there is no file. Blocking.

    A file that holds a key itself must be readable by nobody else. Raises ``ConfigError``
    with every mistake, or ``Unavailable``.
    """
    path = layout.models
    found = document.read_document(path, yaml_reader.MAX_FILE_SIZE)
    if found is None:
        return Models()
    models = yaml_reader.load_yaml(path, found.data, Models, validate)
    if any(supplier.holds_key for supplier in models.suppliers.values()):
        document.read_document(path, yaml_reader.MAX_FILE_SIZE, private=True)
    return models


def check(layout: Layout) -> None:
    """Raise if ``models.yml``, or a key file that it refers to, is invalid. Blocking.

    Variables are not looked up: the daemon's environment differs from the caller's.
    """
    problems: list[ConfigProblem] = []
    for name, supplier in load(layout).suppliers.items():
        if supplier.key.startswith("file:"):
            try:
                read_supplier_key(name, supplier, {})
            except ConfigError as error:
                problems += error.problems
    if problems:
        raise ConfigError(problems)


def find_unknown_channels(layout: Layout, channels: Collection[str]) -> tuple[ConfigProblem, ...]:
    """Find routes in ``models.yml`` to unknown channels, with line numbers. Blocking.

    The rest of it holds all the same: a route to a channel that is not there is left out. Raises
    as ``load`` when the file has mistakes of its own.
    """
    load(layout)
    found = document.read_document(layout.models, yaml_reader.MAX_FILE_SIZE)
    data = found.data if found else b""
    try:
        yaml_reader.load_yaml(
            layout.models, data, Models, lambda models: stray_places(models, channels)
        )
    except ConfigError as error:
        return tuple(error.problems)
    return ()


def read_supplier_key(name: str, supplier: Supplier, environ: Mapping[str, str]) -> str:
    """Return the key of the supplier called ``name``, read at each use. Blocking.

    Empty if none is configured. Raises ``ConfigError`` if it cannot be read, or if
    others could read its file; the key is never shown.
    """
    return secret_ref.resolve_secret(
        supplier.key, environ, f"suppliers.{name}.key", "the supplier's"
    )
