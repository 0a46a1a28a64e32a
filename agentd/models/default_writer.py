"""Adds a model to ``models.yml`` and makes it the default, as the first run in a browser does."""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import structs

from agentd.llm.upstream.request import parse_origin
from agentd.models.model import GATEWAY, Model, Models, Supplier, validate
from agentd.storage.layout import Layout
from agentd.storage.yaml import editor as yaml_editor
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.entries import to_plain


def add_default(before: Models, model: Model, supplier: Supplier | None) -> Models:
    """Return the models with this one as the default, named and added only where needed.

    A supplier at the same address is the same one, with another key. Neither the names of models
    nor those of suppliers that are there change their meaning.
    """
    suppliers = dict(before.suppliers)
    if supplier:
        name = _find_supplier(before, supplier)
        suppliers[name] = supplier
        model = structs.replace(model, supplier=name)
    for known in before.models:
        if _uses_same(known, model):
            return structs.replace(before, default=known.name, suppliers=suppliers)
    model = structs.replace(model, name=_find_free_name(model.name, before.names))
    return structs.replace(
        before, default=model.name, suppliers=suppliers, models=(*before.models, model)
    )


def write_default(layout: Layout, model: Model, supplier: Supplier | None) -> Models:
    """Write what ``add_default`` returns into ``models.yml``; return it. Blocking.

    A file that gets a key becomes readable by nobody else. Raises ``Conflict`` when the file is
    not valid, cannot be edited by a program or was saved by somebody else meanwhile,
    ``ConfigError`` when it would not be valid any more, and ``Unavailable``.
    """
    path = layout.models

    def load(data: bytes) -> Models:
        return yaml_reader.load_yaml(path, data, Models, validate)

    def change(text: yaml_editor.YamlEditor) -> None:
        before = load(text.content.encode())
        after = add_default(before, model, supplier)
        for name, one in after.suppliers.items():
            if before.suppliers.get(name) != one:
                text.set(("suppliers", name), _get_plain(one))
        for added in after.models[len(before.models) :]:
            text.append_item(("models",), _get_plain(added))
        text.set(("default",), after.default)

    return yaml_editor.edit_yaml_file(
        path,
        load,
        change,
        lambda before, after: after == add_default(before, model, supplier),
        private=bool(supplier and supplier.holds_key),
    )


def _get_plain(entry: object) -> Mapping[str, Any]:
    return {name: value for name, value in to_plain(entry).items() if value not in ("", [])}


def _uses_same(known: Model, wanted: Model) -> bool:
    def get_key(model: Model) -> tuple[object, ...]:
        return model.engine, model.model, model.supplier, model.command

    return get_key(known) == get_key(wanted)


def _find_supplier(models: Models, wanted: Supplier) -> str:
    for name, known in models.suppliers.items():
        if (known.dialect, known.url) == (wanted.dialect, wanted.url):
            return name
    host = parse_origin(wanted.url).host
    labels = [one for one in host.split(".") if one not in ("api", "www")]
    name = labels[0] if len(labels) > 1 and not host.replace(".", "").isdigit() else "supplier"
    return _find_free_name(name, {GATEWAY, *models.suppliers})


def _find_free_name(name: str, taken: Collection[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
