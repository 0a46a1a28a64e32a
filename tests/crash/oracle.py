"""The state that a caller may expect after any crash. Pure: it neither reads files nor asks.

A caller notes its request (``ask``) before it leaves, and the answer once it came
(``acknowledge_change`` and its like). A request without an answer is *in doubt*: it happened as a
whole or not at all. The state that is then found of a chat (``Found``) must agree: nothing
acknowledged is missing, nothing is there that nobody asked for, nothing is there twice. After a
check without complaints, the found state is the new truth (``settle``). Every text is unique, so a
text identifies its prompt. There is one caller per chat, so its requests have an order; the
dispatcher takes prompts from the queue at any time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from zlib import crc32

WAITING, SENT, GONE = "waiting", "sent", "gone"


class WaitingPrompt(NamedTuple):
    """A prompt in a queue."""

    id: int
    text: str
    paused: bool = False


class Said(NamedTuple):
    """A message of a history, as the remote API shows it."""

    id: int
    role: str
    text: str


class Found(NamedTuple):
    """A chat, as it is found after a crash."""

    queue: tuple[WaitingPrompt, ...]
    messages: tuple[Said, ...]
    damage: str = ""


class Append(NamedTuple):
    """``POST /queue``; the answer is the prompt's id."""

    text: str


class Rewrite(NamedTuple):
    """``PUT /queue/{id}``; the answer is whether it was still there."""

    id: int
    text: str


class Remove(NamedTuple):
    """``DELETE /queue/{id}``; the answer is whether it was still there."""

    id: int


class Replace(NamedTuple):
    """``PUT /queue``, with id 0 for what is new; the answer is the new queue."""

    wanted: tuple[WaitingPrompt, ...]


Wish: TypeAlias = Append | Rewrite | Remove | Replace


@dataclass
class _Prompt:
    texts: set[str]
    places: set[str] = field(default_factory=lambda: {WAITING, SENT})


@dataclass
class ExpectedChat:
    """The states of one chat that may be found."""

    prompts: dict[int, _Prompt] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    """The ids in dispatch order, as far as it was acknowledged."""
    maybe: set[str] = field(default_factory=set)
    """Texts of prompts that are in doubt, so without an id."""
    first: str = ""
    """The text of the prompt that it was created with: it is there, with an id never told."""
    sent: set[str] = field(default_factory=set)
    """Texts that are known to be in the history."""
    messages: dict[int, Said] = field(default_factory=dict)
    """Messages that somebody has seen: they stay."""
    doubts: list[Wish] = field(default_factory=list)
    """Requests without an answer."""

    def ask(self, wish: Wish) -> None:
        """Note that a request is about to be sent: from now on its effect is uncertain."""
        self.doubts.append(wish)
        match wish:
            case Append(text):
                self.maybe.add(text)
            case Rewrite(prompt_id, text):
                self._add_text(prompt_id, text)
            case Remove(prompt_id):
                if prompt_id in self.prompts:
                    self.prompts[prompt_id].places.add(GONE)
            case Replace(wanted):
                self.maybe.add(self.first)  # its id is unknown, so it cannot be kept
                self.first = ""
                for row in wanted:
                    self._add_text(row.id, row.text)
                for prompt_id in self.prompts.keys() - {row.id for row in wanted}:
                    self.prompts[prompt_id].places.add(GONE)

    def acknowledge_append(self, wish: Append, prompt_id: int) -> None:
        """Note that an append was acknowledged."""
        self.doubts.remove(wish)
        self.maybe.discard(wish.text)
        self.prompts[prompt_id] = _Prompt({wish.text})
        self.order.append(prompt_id)

    def acknowledge_change(self, wish: Rewrite | Remove, *, there: bool) -> None:
        """Note that a rewrite or removal was acknowledged, or that nothing was left to change."""
        self.doubts.remove(wish)
        prompt = self.prompts[wish.id]
        if isinstance(wish, Rewrite):
            if there:
                prompt.texts = {wish.text}
            else:
                prompt.texts.discard(wish.text)
        elif there:
            prompt.places = {GONE}
            self.order.remove(wish.id)
        if not there:
            prompt.places -= {WAITING}
            if isinstance(wish, Remove):
                prompt.places.discard(GONE)

    def acknowledge_queue(self, wish: Replace, queue: tuple[WaitingPrompt, ...]) -> None:
        """Note that a replacement was acknowledged."""
        self.doubts.remove(wish)
        self.maybe -= {row.text for row in wish.wanted}
        for prompt in self.prompts.values():
            prompt.places -= {WAITING}
        for row in wish.wanted:
            if row.id and row.id not in {kept.id for kept in queue}:  # it had been sent already
                self.prompts[row.id].texts.discard(row.text)
        for row in queue:
            self.prompts[row.id] = _Prompt({row.text})
        self.order = [row.id for row in queue]

    def note_refusal(self, wish: Wish) -> None:
        """Note that a request was answered with an error: its effect is unknown all the same."""

    def note_messages(self, messages: Iterable[Said]) -> None:
        """Note that an answer showed these messages, so no crash may undo them."""
        self.messages.update((said.id, said) for said in messages)

    def find_violations(self, found: Found) -> Iterator[str]:
        """Yield in words the differences between what was found and what is expected."""
        users = [said.text for said in found.messages if said.role == "user"]
        yield from _find_doubles(found, users)
        if found.damage:
            yield f"damaged: {found.damage}"
        waiting = {row.id: row for row in found.queue}
        for prompt_id, prompt in self.prompts.items():
            place, text = _locate(prompt_id, prompt, waiting, users)
            if place not in prompt.places:
                yield f"prompt {prompt_id} is {place}, expected {sorted(prompt.places)}"
            elif place == WAITING and text not in prompt.texts:
                yield f"prompt {prompt_id} waits as {text:.40}, expected {prompt.texts}"
        if self.first and self.first not in {*users, *(row.text for row in found.queue)}:
            yield f"the first prompt is lost: {self.first:.40}"
        yield from self._find_unexplained(found, users)
        yield from self._find_disorder(found)
        yield from self._find_halves(waiting, users)
        messages = {said.id: said for said in found.messages}
        for said in self.messages.values():
            if messages.get(said.id) != said:
                yield f"message {said.id} was {said}, is {messages.get(said.id)}"

    def settle(self, found: Found) -> None:
        """Take what was found as the truth from now on."""
        users = {said.text for said in found.messages if said.role == "user"}
        for prompt_id, prompt in self.prompts.items():
            place, text = _locate(prompt_id, prompt, {row.id: row for row in found.queue}, users)
            prompt.places = {WAITING, SENT} if place == WAITING else {place}
            prompt.texts = {text} if text else prompt.texts
        for row in found.queue:
            self.prompts.setdefault(row.id, _Prompt({row.text}))
        self.order = [row.id for row in found.queue]
        self.first = ""
        self.maybe.clear()
        self.doubts.clear()
        self.sent = users
        self.note_messages(found.messages)

    def _add_text(self, prompt_id: int, text: str) -> None:
        if prompt_id in self.prompts:
            self.prompts[prompt_id].texts.add(text)
        else:
            self.maybe.add(text)

    def _find_unexplained(self, found: Found, users: list[str]) -> Iterator[str]:
        known = {self.first}.union(self.maybe, self.sent, *(p.texts for p in self.prompts.values()))
        for text in users:
            if text not in known:
                yield f"nobody asked for the message {text:.40}"
        for row in found.queue:
            if row.id not in self.prompts and row.text not in known:
                yield f"nobody asked for the waiting {row}"

    def _find_disorder(self, found: Found) -> Iterator[str]:
        if any(isinstance(doubt, Replace) for doubt in self.doubts):
            return
        known = set(self.order)
        there = [row.id for row in found.queue if row.id in known]
        if there != [prompt_id for prompt_id in self.order if prompt_id in set(there)]:
            yield f"the queue is {there}, expected the order {self.order}"
        numbers = [said.id for said in found.messages]
        if numbers != sorted(numbers):
            yield f"the messages are out of order: {numbers}"

    def _find_halves(self, waiting: dict[int, WaitingPrompt], users: list[str]) -> Iterator[str]:
        """Yield halves of a replacement: the only doubt, it happened as a whole or not at all."""
        if len(self.doubts) != 1 or not isinstance(wish := self.doubts[0], Replace):
            return
        there = {row.text for row in waiting.values()} | set(users)
        new = [row.text in there for row in wish.wanted if not row.id]
        if new and any(new) != all(new):
            yield f"half of a replacement: {new}"
        left_out = self.prompts.keys() - {row.id for row in wish.wanted}
        if any(new) and (kept := left_out & waiting.keys()):
            yield f"half of a replacement: {sorted(kept)} are still there"


def _locate(
    prompt_id: int, prompt: _Prompt, waiting: dict[int, WaitingPrompt], users: Iterable[str]
) -> tuple[str, str]:
    if prompt_id in waiting:
        return WAITING, waiting[prompt_id].text
    sent = prompt.texts.intersection(users)
    return (SENT, sent.pop()) if sent else (GONE, "")


def _find_doubles(found: Found, users: list[str]) -> Iterator[str]:
    for text, times in Counter(users).items():
        if times > 1:
            yield f"sent {times} times: {text:.40}"
    for row in found.queue:
        if row.text in users:
            yield f"in the queue and in the history: {row}"
    for prompt_id, times in Counter(row.id for row in found.queue).items():
        if times > 1:
            yield f"prompt {prompt_id} waits {times} times"


@dataclass
class Register:
    """Every number that was ever told to anybody: none may be given to anything else again."""

    given: dict[tuple[str, int], object] = field(default_factory=dict)

    def give(self, kind: str, number: int) -> Iterator[str]:
        """Note that something new got a number."""
        if (kind, number) in self.given:
            yield f"{kind} id {number} was given before"
        self.given.setdefault((kind, number), None)

    def note(self, found: Found) -> Iterator[str]:
        """These were found: numbers of a message belong to it alone."""
        for row in found.queue:
            self.given.setdefault(("prompt", row.id), None)
        for said in found.messages:
            if self.given.setdefault(("message", said.id), said) != said:
                yield f"message id {said.id} was given before"


class Given(NamedTuple):
    """A line of the engine's own ledger: a prompt that was handed over."""

    chat: int
    prompt: str
    """Its short name, as ``name_prompt`` tells it."""

    @staticmethod
    def of(chat: int, text: str) -> "Given":
        """Return the line for a prompt of this text."""
        return Given(chat, name_prompt(text))


def name_prompt(text: str) -> str:
    """Return a name of few bytes for the prompt of this text: its first word and a checksum."""
    return f"{text.split(' ', 1)[0]:.20} {crc32(text.encode()):08x}"


def find_ledger_violations(ledger: Iterable[Given], histories: dict[int, Found]) -> Iterator[str]:
    """Yield the problems of the engine's ledger: nothing twice, nothing without a message.

    And every reply belongs to something that it was given.
    """
    times = Counter(ledger)
    for given, count in times.items():
        if count > 1:
            yield f"handed over {count} times: {given}"
    told = {
        chat: {Given.of(chat, said.text) for said in found.messages if said.role == "user"}
        for chat, found in histories.items()
    }
    for given in times:
        if given not in told.get(given.chat, ()):
            yield f"handed over, but not in the history: {given}"
    for chat, found in histories.items():
        for said in found.messages:
            if said.role == "assistant" and Given.of(chat, said.text) not in times:
                yield f"replied in chat {chat} to what it was not given: {said.text:.40}"
