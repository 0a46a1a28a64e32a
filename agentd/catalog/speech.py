"""Who hears speech: the engines of ``speech.yml``, and what they are given.

The same ``Speech`` is the schema of the file and what the daemon runs with.
"""

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentd.catalog.models import Line, Name
from agentd.errors import NotFound, nearest

Kind: TypeAlias = Literal["pocketsphinx", "openai", "command"]
"""``pocketsphinx`` hears offline; ``openai`` is any ``/audio/transcriptions``; any program."""

_NEEDED = {"pocketsphinx": (), "openai": ("supplier", "model"), "command": ("command",)}
_USED = {
    "pocketsphinx": {"language"},
    "openai": {"supplier", "model", "language"},
    "command": {"command", "language"},
}
FILE, LANGUAGE = "{file}", "{language}"
"""What a command is given: the path of a WAV file, and the language."""


class Ear(Struct, frozen=True, kw_only=True):
    """One engine that turns speech into text."""

    name: Name
    engine: Kind
    supplier: str = ""
    """The name of a supplier in ``models.yml``."""
    model: Annotated[str, Meta(max_length=200)] = ""
    """The supplier's name of the model."""
    command: tuple[Line, ...] = ()
    """A program with its arguments; ``{file}`` stands for the audio, ``{language}`` for that."""
    language: Annotated[str, Meta(pattern="([A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*)?")] = ""
    """What is spoken when the caller does not say, such as ``en``; empty: the engine decides."""
    seconds: Annotated[int, Meta(ge=1, le=3600)] = 120
    """How long it may take."""


POCKETSPHINX = Ear(name="pocketsphinx", engine="pocketsphinx")
"""The engine that is there without a file."""


class Speech(Struct, frozen=True):
    """The engines in the file's order, and how much audio is taken at a time."""

    default: str = ""
    """The engine of who names none; empty: the first."""
    longest: Annotated[int, Meta(ge=1, le=7200)] = 600
    """Seconds of audio."""
    engines: tuple[Ear, ...] = (POCKETSPHINX,)

    def find(self, name: str) -> Ear:
        """The engine of this name, or the default one; ``NotFound`` tells the nearest."""
        if not self.engines:
            raise NotFound("speech.yml names no engine")
        wanted = name or self.default or self.engines[0].name
        for ear in self.engines:
            if ear.name == wanted:
                return ear
        near = nearest(wanted, [ear.name for ear in self.engines])
        raise NotFound(f'No speech engine is named "{wanted[:100]}"{near}')


def contradictions(speech: Speech) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What does not fit together in ``speech.yml``: where, and why."""
    names = [ear.name for ear in speech.engines]
    for number, ear in enumerate(speech.engines):
        place = ("engines", number)
        if names.index(ear.name) != number:
            yield (*place, "name"), f'"{ear.name}" is the name of an engine above; choose another'
        yield from ((place, what) for what in _unfit(ear))
        if ear.command and not any(FILE in argument for argument in ear.command[1:]):
            yield (*place, "command"), f'no argument has "{FILE}" in it, where the audio is told'
    if speech.default and speech.default not in names:
        near = nearest(speech.default, names) or "; there are none"
        yield ("default",), f'"{speech.default}" is none of the engines{near}'


def _unfit(ear: Ear) -> Iterator[str]:
    """What the engine needs and is not given, or is given and cannot use."""
    for name in _NEEDED[ear.engine]:
        if not getattr(ear, name):
            yield f'"{name}" is missing; engine {ear.engine} needs it'
    for name in ("supplier", "model", "command", "language"):
        if name not in _USED[ear.engine] and getattr(ear, name):
            yield f'"{name}" means nothing to engine {ear.engine}; remove it'


def filled_in(command: tuple[str, ...], file: str, language: str) -> list[str]:
    """A command's program and arguments, each one argument still whatever stands in it."""
    return [one.replace(LANGUAGE, language).replace(FILE, file) for one in command]
