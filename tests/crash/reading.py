"""What is found in a state folder: by the store that we test, and by eyes of our own."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from agentd.chats.chat import simplified
from agentd.chats.fold import Chat
from agentd.chats.records import Entry, message_in
from agentd.disk import lines
from agentd.disk.layout import Layout
from agentd.disk.load import load, open_journal
from agentd.disk.state import open_state
from agentd.errors import AgentdError
from agentd.ids import Marks
from tests.crash.oracle import Found, Given, Said, Waiting


def opened(folder: str) -> dict[int, Found]:
    """Every chat, as a start of the store finds it."""
    layout = Layout(folder, folder)
    state = open_state(layout)
    try:
        return {chat_id: _found(layout, chat_id) for chat_id in state.chats}
    finally:
        state.release()


def read(layout: Layout) -> dict[int, Found]:
    """Every chat, as it is, without a start; those in the trash, too."""
    chats = [int(path.name) for path in Path(layout.chats).glob("*")]
    return {number: _found(layout, number) for number in chats}


def marks(folder: str) -> Marks:
    """The highest numbers that a start of the store holds for given: the next ones are higher."""
    state = open_state(Layout(folder, folder))
    state.release()
    return state.sequences.used


def _found(layout: Layout, chat_id: int) -> Found:
    try:
        chat = load(layout, chat_id).chat
    except AgentdError as error:
        return Found((), (), damage=str(error.message))
    again = Chat(chat_id)
    said = []
    with open(open_journal(layout, chat_id), "rb") as journal:
        steps = lines.read(journal.read())
    for step in steps:
        if isinstance(step, lines.Damage):
            break
        again.apply(*step)
        if message := message_in(step[0].body):
            said.append(Said(message.id, message.role, simplified(message)))
    damage = chat.damage
    if not damage and (again.queue, again.messages) != (chat.queue, chat.messages):
        damage = "the checkpoint says something else than the journal"
    queue = tuple(Waiting(prompt.id, prompt.text, prompt.paused) for prompt in chat.queue)
    return Found(queue, tuple(said), damage)


def ledger(path: str) -> list[Given]:
    """What the engine was given, in order."""
    if not os.path.exists(path):
        return []
    return [Given(*json.loads(line)) for line in Path(path).read_bytes().splitlines()]


def journal_violations(folder: str, asked: set[str]) -> Iterator[str]:
    """What is wrong with the journals, read without any code of the store.

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
            yield from _once(numbers, ("seq", seq), where)
            yield from _row_violations(row["body"], waiting, numbers, asked, where)


def _row_violations(
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
            yield from _once(numbers, ("prompt", prompt["id"]), where)
    if body.get("message"):
        yield from _once(numbers, ("message", body["message"]["id"]), where)
    if body["type"] == "queue.replaced":
        waiting.clear()
    waiting |= {prompt["id"] for prompt in prompts}
    gone = {"turn.started": "prompt", "queue.removed": "id"}.get(body["type"])
    if gone:
        if body[gone] not in waiting:
            yield f"{where}: prompt {body[gone]} was not waiting"
        waiting.discard(body[gone])


def _once(
    numbers: dict[tuple[str, int], str], number: tuple[str, int], where: str
) -> Iterator[str]:
    if number in numbers:
        yield f"{where}: {number} was given before, at {numbers[number]}"
    numbers[number] = where


def entries(path: str) -> list[Entry]:
    """The entries of one journal."""
    steps = lines.read(Path(path).read_bytes())
    return [step[0] for step in steps if not isinstance(step, lines.Damage)]
