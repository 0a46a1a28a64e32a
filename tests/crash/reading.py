"""The contents of a state folder: read by the store that is tested, and by independent code."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from agentd.app.state import open_state
from agentd.chats import journal_reader
from agentd.chats.load import load
from agentd.chats.model import simplify_message
from agentd.chats.records import JournalEntry, get_message
from agentd.chats.state import Chat
from agentd.core.errors import AgentdError
from agentd.core.ids import HighWaterMarks
from agentd.storage.journal import open_journal_file
from agentd.storage.layout import Layout
from tests.crash.oracle import Found, Given, Said, WaitingPrompt


def read_chats(folder: str) -> dict[int, Found]:
    """Return every chat as a start of the store finds it."""
    layout = Layout(folder, folder)
    state = open_state(layout)
    try:
        return {chat_id: _read_chat(layout, chat_id) for chat_id in state.chats}
    finally:
        state.release()


def read(layout: Layout) -> dict[int, Found]:
    """Read every chat without starting a daemon, including those in the trash."""
    chats = [int(path.name) for path in Path(layout.chats).glob("*")]
    return {number: _read_chat(layout, number) for number in chats}


def read_marks(folder: str) -> HighWaterMarks:
    """Return the highest numbers that a start of the store takes as given."""
    state = open_state(Layout(folder, folder))
    state.release()
    return state.sequences.used


def _read_chat(layout: Layout, chat_id: int) -> Found:
    try:
        chat = load(layout, chat_id).chat
    except AgentdError as error:
        return Found((), (), damage=str(error.message))
    again = Chat(chat_id)
    said = []
    with open(open_journal_file(layout, chat_id), "rb") as journal:
        steps = journal_reader.read_entries(journal.read())
    for step in steps:
        if isinstance(step, journal_reader.JournalDamage):
            break
        again.apply(*step)
        if message := get_message(step[0].body):
            said.append(Said(message.id, message.role, simplify_message(message)))
    damage = chat.damage
    if not damage and (again.queue, again.messages) != (chat.queue, chat.messages):
        damage = "the checkpoint says something else than the journal"
    queue = tuple(WaitingPrompt(prompt.id, prompt.text, prompt.paused) for prompt in chat.queue)
    return Found(queue, tuple(said), damage)


def read_ledger(path: str) -> list[Given]:
    """Return the prompts that the engine was given, in order."""
    if not os.path.exists(path):
        return []
    lines = map(json.loads, Path(path).read_bytes().splitlines())
    return [Given(*line) for line in lines if isinstance(line[0], int)]


def read_decisions(path: str) -> list[tuple[str, bool]]:
    """Return what the engine was told about its questions, in order."""
    if not os.path.exists(path):
        return []
    lines = map(json.loads, Path(path).read_bytes().splitlines())
    return [(line[0], line[1]) for line in lines if isinstance(line[0], str)]


def find_journal_violations(folder: str, asked: set[str]) -> Iterator[str]:
    """Yield the problems of the journals, read without any code of the store.

    ``asked`` are all texts that any caller ever sent: nothing else may stand in a queue.
    """
    numbers: dict[tuple[str, int], str] = {}
    for path in sorted(Path(folder, "chats").glob("*/journal.jsonl")):
        waiting: set[int] = set()
        seq = 0
        for n, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
            where = f"{path}:{n}"
            body, _, seal = line.rpartition(b',"crc":')
            if seal != b'"%08x"}\n' % crc32(body):
                yield f"{where}: the checksum is wrong"
                break
            row = json.loads(line)
            if row["n"] != n or row["seq"] <= seq:
                yield f"{where}: line {row['n']}, seq {row['seq']} after {seq}"
            seq = row["seq"]
            yield from _find_repetition(numbers, ("seq", seq), where)
            yield from _find_row_violations(row["body"], waiting, numbers, asked, where)


def _find_row_violations(
    body: dict[str, Any],
    waiting: set[int],
    numbers: dict[tuple[str, int], str],
    asked: set[str],
    where: str,
) -> Iterator[str]:
    prompts = [prompt for prompt in [body.get("prompt")] if isinstance(prompt, dict)]
    prompts += body.get("prompts", [])
    for text in [prompt["text"] for prompt in prompts] + [body.get("text", "")]:
        if text and text not in asked:
            yield f"{where}: nobody asked for {text:.40}"
    for prompt in prompts:
        if prompt["id"] not in waiting:
            yield from _find_repetition(numbers, ("prompt", prompt["id"]), where)
    if body.get("message"):
        yield from _find_repetition(numbers, ("message", body["message"]["id"]), where)
    if body["type"] == "queue.replaced":
        waiting.clear()
    waiting |= {prompt["id"] for prompt in prompts}
    gone = {"turn.started": "prompt", "queue.removed": "id"}.get(body["type"])
    if gone:
        if body[gone] not in waiting:
            yield f"{where}: prompt {body[gone]} was not waiting"
        waiting.discard(body[gone])


def _find_repetition(
    numbers: dict[tuple[str, int], str], number: tuple[str, int], where: str
) -> Iterator[str]:
    if number in numbers:
        yield f"{where}: {number} was given before, at {numbers[number]}"
    numbers[number] = where


def read_entries(path: str) -> list[JournalEntry]:
    """Return the entries of one journal."""
    steps = journal_reader.read_entries(Path(path).read_bytes())
    return [step[0] for step in steps if not isinstance(step, journal_reader.JournalDamage)]
