"""The speech engines of ``speech.yml``, and their parameters.

The same ``Speech`` is the schema of the file and what the daemon runs with.
"""

from collections.abc import Collection, Iterator
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentd.core.errors import NotFound, suggest_name
from agentd.models.model import Line, ModelName

SpeechEngineKind: TypeAlias = Literal["pocketsphinx", "openai", "command"]
"""``pocketsphinx`` works offline; ``openai`` is any ``/audio/transcriptions``; any program."""

_NEEDED = {"pocketsphinx": (), "openai": ("supplier", "model"), "command": ("command",)}
_USED = {
    "pocketsphinx": {"language"},
    "openai": {"supplier", "model", "language"},
    "command": {"command", "language"},
}
FILE, LANGUAGE = "{file}", "{language}"
"""The placeholders in a command: the path of a WAV file, and the language."""


class SpeechEngine(Struct, frozen=True, kw_only=True):
    """An engine that turns speech into text."""

    name: ModelName
    engine: SpeechEngineKind
    supplier: str = ""
    """The name of a supplier in ``models.yml``."""
    model: Annotated[str, Meta(max_length=200)] = ""
    """The supplier's name of the model."""
    command: tuple[Line, ...] = ()
    """A program with its arguments; ``{file}`` and ``{language}`` are replaced."""
    language: Annotated[
        str,
        Meta(
            pattern="([A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*)?",
            extra={"form": "the tag of a language, such as en or pt-BR"},
        ),
    ] = ""
    """The language assumed if the caller gives none, such as ``en``; empty: the engine decides."""
    timeout_seconds: Annotated[int, Meta(ge=1, le=3600)] = 120
    """The maximum duration of a transcription."""


POCKETSPHINX = SpeechEngine(name="pocketsphinx", engine="pocketsphinx")
"""The engine that is there without a file."""


class Speech(Struct, frozen=True):
    """The engines in the file's order, and how much audio is taken at a time."""

    default: str = ""
    """The engine of who names none; empty: the first."""
    max_seconds: Annotated[int, Meta(ge=1, le=7200)] = 600
    """Seconds of audio."""
    engines: tuple[SpeechEngine, ...] = (POCKETSPHINX,)

    def find(self, name: str) -> SpeechEngine:
        """Return the engine of this name, or the default; ``NotFound`` suggests the nearest."""
        if not self.engines:
            raise NotFound("speech.yml names no engine")
        wanted = name or self.default or self.engines[0].name
        for recognizer in self.engines:
            if recognizer.name == wanted:
                return recognizer
        near = suggest_name(wanted, [recognizer.name for recognizer in self.engines])
        raise NotFound(f'No speech engine is named "{wanted[:100]}"{near}')


def validate(speech: Speech) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each inconsistency in ``speech.yml``: where, and why."""
    names = [recognizer.name for recognizer in speech.engines]
    for number, recognizer in enumerate(speech.engines):
        place = ("engines", number)
        if names.index(recognizer.name) != number:
            yield (
                (*place, "name"),
                f'"{recognizer.name}" is the name of an engine above; choose another',
            )
        yield from ((place, what) for what in _validate_engine(recognizer))
        if recognizer.command and not any(FILE in argument for argument in recognizer.command[1:]):
            yield (*place, "command"), f'no argument contains "{FILE}", the path of the audio'
    if speech.default and speech.default not in names:
        near = suggest_name(speech.default, names) or "; there are none"
        yield ("default",), f'"{speech.default}" is none of the engines{near}'


def find_unknown_suppliers(
    speech: Speech, suppliers: Collection[str]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each supplier that ``models.yml`` does not have: where, and why."""
    for number, recognizer in enumerate(speech.engines):
        if recognizer.supplier and recognizer.supplier not in suppliers:
            near = suggest_name(recognizer.supplier, suppliers) or "; there are none yet"
            what = f'"{recognizer.supplier}" is not a supplier of models.yml{near}'
            yield ("engines", number, "supplier"), what


def _validate_engine(recognizer: SpeechEngine) -> Iterator[str]:
    """Yield the fields that the engine lacks or cannot use."""
    for name in _NEEDED[recognizer.engine]:
        if not getattr(recognizer, name):
            yield f'"{name}" is missing; engine {recognizer.engine} needs it'
    for name in ("supplier", "model", "command", "language"):
        if name not in _USED[recognizer.engine] and getattr(recognizer, name):
            yield f'"{name}" means nothing to engine {recognizer.engine}; remove it'


def fill_command(command: tuple[str, ...], file: str, language: str) -> list[str]:
    """Fill in the placeholders of a command; each argument stays one argument."""
    return [one.replace(LANGUAGE, language).replace(FILE, file) for one in command]
