"""Records what the real engines say: ``python -m tests.agent.engines.real.record``.

Each scenario is a file of JSON lines in ``transcripts/``; the README there tells what is
in them. Names of scenarios (``codex-command``) as arguments record only those.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.agent.engines.real import codex_talks, opencode_talks
from tests.agent.engines.real.codex_talks import Codex
from tests.agent.engines.real.opencode_talks import Opencode
from tests.agent.engines.real.programs import (
    CODEX,
    OPENCODE,
    Place,
    find_missing,
    make_place,
    read_version,
)
from tests.agent.engines.real.talk import Message
from tests.supplier.supplier import Supplier

TRANSCRIPTS = Path(__file__).parent / "transcripts"


def main(wanted: list[str]) -> None:
    """Record the scenarios wanted, or all."""
    if reason := find_missing():
        raise SystemExit(reason)
    for name, record in _list_scenarios():
        if not wanted or name in wanted:
            with tempfile.TemporaryDirectory() as folder:
                lines = record(make_place(Path(folder)))
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (TRANSCRIPTS / f"{name}.jsonl").write_text(text)
            print(f"{name}: {len(lines)} lines")  # noqa: T201 (a program for a person)


def _list_scenarios() -> Iterator[tuple[str, Callable[[Place], list[Message]]]]:
    for talk in codex_talks.TALKS:
        yield f"codex-{talk.__name__}", partial(_record_codex, talk)
    for scene in opencode_talks.TALKS:
        yield f"opencode-{scene.__name__}", partial(_record_opencode, scene)


def _record_codex(talk: Callable[[Codex], None], where: Place) -> list[Message]:
    with Supplier() as supplier:
        codex = Codex(where, supplier)
        talk(codex)
        about = {"program": "codex", "version": read_version(CODEX, where)}
        return _scrub(about, codex, where, supplier)


def _record_opencode(talk: Callable[[Opencode], None], where: Place) -> list[Message]:
    with Supplier() as supplier:
        opencode = Opencode(where, supplier)
        talk(opencode)
        about = {"program": "opencode", "version": read_version(OPENCODE, where)}
        return _scrub(about, opencode, where, supplier)


def _scrub(
    about: Message, engine: Codex | Opencode, where: Place, supplier: Supplier
) -> list[Message]:
    """Return all lines, with names in place of what differs from machine to machine."""
    heads_and_lines = [[{**about, "argv": talk.argv}, *talk.lines] for talk in engine.talks]
    text = json.dumps([line for run in heads_and_lines for line in run])
    for found, name in (
        (str(where.workspace), "{workspace}"),
        (str(where.home), "{home}"),
        (str(where.home.parent), "{scratch}"),
        (supplier.url, "{supplier}"),
        (str(CODEX), "codex"),
        (str(OPENCODE), "opencode"),
    ):
        text = text.replace(found, name)
    scrubbed: list[Message] = json.loads(text)
    return scrubbed


if __name__ == "__main__":
    main(sys.argv[1:])
