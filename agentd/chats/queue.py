"""The queue's rules: a queue and a wish in, the new queue out. No I/O, no time, no ids of its own.

Source: the remote-control specification, section 4, 'Rules of endpoint 6' and 'endpoint 8'.
"""

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace as changed

from agentd.chats.chat import LARGEST_ID, PROMPT_LIMIT, Prompt
from agentd.errors import BadRequest, NotFound, TooLarge

Queue: TypeAlias = tuple[Prompt, ...]
"""Waiting prompts in dispatch order, paused ones included."""


class Wanted(Struct, frozen=True):
    """One element of a replacement; ``id`` 0 makes a new prompt, ``paused`` None leaves as is."""

    text: str
    id: int = 0
    paused: bool | None = None


def checked_text(text: str, where: str = "prompt") -> str:
    """The text, if it can be a prompt.

    Raises ``BadRequest`` when it is empty, blank or not writable as UTF-8, and ``TooLarge``
    over ``PROMPT_LIMIT`` bytes.
    """
    if not text or text.isspace():
        raise BadRequest(f"{where} is empty", "A prompt needs text that is not only whitespace.")
    if "\0" in text:
        raise BadRequest(f"{where} holds a NUL character")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadRequest(f"{where} holds a lone surrogate, which is not text") from None
    if size > PROMPT_LIMIT:
        raise TooLarge(f"{where} has {size} bytes", f"A prompt is at most {PROMPT_LIMIT} bytes.")
    return text


def find(queue: Queue, prompt_id: int) -> Prompt | None:
    """The waiting prompt with this id."""
    return next((prompt for prompt in queue if prompt.id == prompt_id), None)


def next_up(queue: Queue) -> Prompt | None:
    """The prompt to dispatch next: paused ones are passed over, they do not block."""
    return next((prompt for prompt in queue if not prompt.paused), None)


def rewritten(queue: Queue, prompt_id: int, text: str, model: str | None = None) -> Queue:
    """The queue with another text, and perhaps model, of a waiting prompt; ``NotFound``.

    All else of it stays (rules of endpoint 6); so does its model when ``model`` is None.
    """
    index = _index(queue, prompt_id)
    prompt = _reworded(queue[index], text)
    if model is not None:
        prompt = changed(prompt, model=model)
    return (*queue[:index], prompt, *queue[index + 1 :])


def removed(queue: Queue, prompt_id: int) -> Queue:
    """The queue without this waiting prompt; ``NotFound``."""
    index = _index(queue, prompt_id)
    return queue[:index] + queue[index + 1 :]


def paused(queue: Queue, ids: Collection[int], *, pause: bool) -> Queue:
    """The queue with these prompts paused, or no longer so; ids that do not wait in it are none."""
    return tuple(changed(prompt, paused=pause) if prompt.id in ids else prompt for prompt in queue)


def moved(queue: Queue, prompt_id: int, place: int) -> Queue:
    """The queue with so many others before this prompt, or with it at the end; ``NotFound``."""
    index = _index(queue, prompt_id)
    others = queue[:index] + queue[index + 1 :]
    return (*others[:place], queue[index], *others[place:])


def _index(queue: Queue, prompt_id: int) -> int:
    for index, prompt in enumerate(queue):
        if prompt.id == prompt_id:
            return index
    raise NotFound(f"Prompt {prompt_id} not found")


def check_wanted(wanted: Collection[Wanted]) -> None:
    """Rule 8 of endpoint 8: empty text or a repeated positive id is a bad request."""
    seen: set[int] = set()
    for index, element in enumerate(wanted):
        checked_text(element.text, f"prompts[{index}].prompt")
        if not 0 <= element.id <= LARGEST_ID:
            raise BadRequest(f"prompts[{index}].id is {element.id}, expected 0 to {LARGEST_ID}")
        if element.id in seen:
            raise BadRequest(f"prompts[{index}].id {element.id} appears twice")
        if element.id:
            seen.add(element.id)


def replaced(
    queue: Queue,
    wanted: Iterable[Wanted],
    sent: Collection[int],
    fresh: Callable[[str, bool], Prompt],
) -> Queue:
    """The queue that a replacement makes (rules 1 to 7 of endpoint 8).

    ``sent`` holds the ids that were already sent from this chat: these are skipped. ``fresh``
    makes a new prompt of a text and a pause state. Raises ``NotFound`` for a positive id that
    neither waits in this queue nor was sent from it; nothing is made before that is known.
    """
    waiting = {prompt.id: prompt for prompt in queue}
    wanted = [element for element in wanted if element.id not in sent]
    for element in wanted:
        if element.id and element.id not in waiting:
            raise NotFound(f"Prompt {element.id} not found")
    return tuple(
        _kept(waiting[element.id], element)
        if element.id
        else fresh(element.text, bool(element.paused))
        for element in wanted
    )


def _kept(row: Prompt, element: Wanted) -> Prompt:
    paused = row.paused if element.paused is None else element.paused
    return changed(_reworded(row, element.text), paused=paused)


def _reworded(row: Prompt, text: str) -> Prompt:
    """With other words it is another message, though its first ones may be in the history."""
    return row if text == row.text else changed(row, text=text, message=0)
