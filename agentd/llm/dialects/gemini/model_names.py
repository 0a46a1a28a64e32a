"""The names of models at Gemini's addresses, with or without ``models/`` before them."""

from urllib.parse import quote

_PREFIX = "models/"


def qualify_name(model: str) -> str:
    """Return the name as a request has it: ``models/NAME``."""
    return _PREFIX + model.removeprefix(_PREFIX)


def build_path(model: str, method: str) -> str:
    """Return the path of a method of a model, which no name can leave."""
    return f"/v1beta/models/{quote(model.removeprefix(_PREFIX), safe='')}:{method}"
