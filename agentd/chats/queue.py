"""The queue's rules: a queue and a wish in, the new queue out. No I/O, no time, no ids of its own.

Source: the remote-control specification, section 4, 'Rules of endpoint 6' and 'endpoint 8'.
"""

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace as changed

from agentd.chats.model import MAX_PROMPT_BYTES, Prompt
from agentd.core.clock import Timestamp, format_iso_rounded_up, parse_iso_with_zone
from agentd.core.errors import BadRequest, NotFound, TooLarge
from agentd.core.ids import MAX_ID

Queue: TypeAlias = tuple[Prompt, ...]
"""Waiting prompts in dispatch order, paused ones included."""


class QueueItem(Struct, frozen=True):
    """An element of a replacement; ``id`` 0 makes a new prompt. What is None is kept."""

    text: str
    id: int = 0
    paused: bool | None = None
    not_before: Timestamp | None = None
    """Empty: it has no time any more."""


def validate_text(text: str, where: str = "prompt") -> str:
    """Return the text if it is a valid prompt.

    Raises ``BadRequest`` when it is empty, blank or not writable as UTF-8, and ``TooLarge``
    over ``MAX_PROMPT_BYTES`` bytes.
    """
    if not text or text.isspace():
        raise BadRequest(f"{where} is empty", "A prompt needs text that is not only whitespace.")
    if "\0" in text:
        raise BadRequest(f"{where} holds a NUL character")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadRequest(f"{where} holds a lone surrogate, which is not text") from None
    if size > MAX_PROMPT_BYTES:
        raise TooLarge(
            f"{where} has {size} bytes", f"A prompt is at most {MAX_PROMPT_BYTES} bytes."
        )
    return text


def parse_not_before(text: str | None, where: str = "notBefore") -> Timestamp | None:
    """Return the time before which a prompt is not to be sent; None and empty stay.

    Raises ``BadRequest`` for what is no time, or has no zone: whose noon it means is unknown.
    """
    if not text:
        return text
    try:
        return format_iso_rounded_up(parse_iso_with_zone(text))
    except ValueError as error:
        raise BadRequest(
            f"{where} is {text[:60]!r}, expected a time with its zone: {error}",
            "Such as 2026-11-24T09:00:00+01:00 or 2026-11-24T08:00:00Z.",
        ) from None


def find_prompt(queue: Queue, prompt_id: int) -> Prompt | None:
    """Return the waiting prompt with this id."""
    return next((prompt for prompt in queue if prompt.id == prompt_id), None)


def find_next(queue: Queue, now: Timestamp) -> Prompt | None:
    """Return the prompt to dispatch next: the first that is neither paused nor for later.

    Neither blocks those behind it; a prompt for later keeps its place for when it is due.
    """
    return next((one for one in queue if not one.paused and one.not_before <= now), None)


def find_soonest(queue: Queue) -> Prompt | None:
    """Return the prompt that can be dispatched soonest, whenever that is; paused ones cannot."""
    soonest: Prompt | None = None
    for one in queue:
        if one.paused:
            continue
        if not one.not_before:
            return one
        if soonest is None or one.not_before < soonest.not_before:
            soonest = one
    return soonest


def rewrite_prompt(
    queue: Queue,
    prompt_id: int,
    text: str,
    model: str | None = None,
    not_before: Timestamp | None = None,
) -> Queue:
    """Return the queue with another text, model or time of a waiting prompt; ``NotFound``.

    All else of it stays (rules of endpoint 6); so do its model and its time when they are None.
    """
    index = _find_index(queue, prompt_id)
    prompt = _replace_text(queue[index], text)
    if model is not None:
        prompt = changed(prompt, model=model)
    prompt = _replace_time(prompt, not_before)
    return (*queue[:index], prompt, *queue[index + 1 :])


def remove_prompt(queue: Queue, prompt_id: int) -> Queue:
    """Return the queue without this waiting prompt; ``NotFound``."""
    index = _find_index(queue, prompt_id)
    return queue[:index] + queue[index + 1 :]


def pause_prompts(queue: Queue, ids: Collection[int], *, pause: bool) -> Queue:
    """Return the queue with these prompts paused or resumed; unknown ids are ignored."""
    return tuple(changed(prompt, paused=pause) if prompt.id in ids else prompt for prompt in queue)


def move_prompt(queue: Queue, prompt_id: int, place: int) -> Queue:
    """Return the queue with this prompt at a position, or at the end; ``NotFound``."""
    index = _find_index(queue, prompt_id)
    others = queue[:index] + queue[index + 1 :]
    return (*others[:place], queue[index], *others[place:])


def _find_index(queue: Queue, prompt_id: int) -> int:
    for index, prompt in enumerate(queue):
        if prompt.id == prompt_id:
            return index
    raise NotFound(f"Prompt {prompt_id} not found")


def validate_queue(wanted: Collection[QueueItem]) -> None:
    """Apply rule 8 of endpoint 8: empty text or a repeated positive id is a bad request."""
    seen: set[int] = set()
    for index, element in enumerate(wanted):
        validate_text(element.text, f"prompts[{index}].prompt")
        if not 0 <= element.id <= MAX_ID:
            raise BadRequest(f"prompts[{index}].id is {element.id}, expected 0 to {MAX_ID}")
        if element.id in seen:
            raise BadRequest(f"prompts[{index}].id {element.id} appears twice")
        if element.id:
            seen.add(element.id)


def replace_queue(
    queue: Queue,
    wanted: Iterable[QueueItem],
    sent: Collection[int],
    fresh: Callable[[str, bool], Prompt],
) -> Queue:
    """Return the queue after a replacement (rules 1 to 7 of endpoint 8).

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
        _apply_item(waiting[element.id], element)
        if element.id
        else _replace_time(fresh(element.text, bool(element.paused)), element.not_before)
        for element in wanted
    )


def _apply_item(row: Prompt, element: QueueItem) -> Prompt:
    paused = row.paused if element.paused is None else element.paused
    row = _replace_time(_replace_text(row, element.text), element.not_before)
    return changed(row, paused=paused)


def _replace_time(row: Prompt, not_before: Timestamp | None) -> Prompt:
    return row if not_before is None else changed(row, not_before=not_before)


def _replace_text(row: Prompt, text: str) -> Prompt:
    """Return the prompt with another text: a new message, even if the old one is in the history."""
    return row if text == row.text else changed(row, text=text, message=0)
