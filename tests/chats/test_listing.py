"""A page of the list of chats: stable, complete, and never dearer for there being more chats."""

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agentd.chats import listing
from agentd.chats.listing import MOST_OF_A_KIND, ChatFilter, list_notable, list_page
from agentd.chats.state import Chat, ChatSummary

NAMES = ("bug", "idea", "Später")


def make_summary(number: int, title: str = "", labels: tuple[str, ...] = ()) -> ChatSummary:
    chat = Chat(number, title=title, created_at="2026-01-01T00:00:00.000Z", cost=Decimal(0))
    chat.labels = labels
    return chat.summarize()


@st.composite
def summaries_by_id(draw: st.DrawFn) -> dict[int, ChatSummary]:
    numbers = draw(st.sets(st.integers(1, 60)))
    return {
        number: make_summary(
            number, draw(st.sampled_from(NAMES)), draw(st.sampled_from([(), NAMES[:1], NAMES]))
        )
        for number in sorted(numbers)
    }


filters = st.builds(ChatFilter, label=st.sampled_from(["", *NAMES]))


@given(
    summaries_by_id(), filters, st.integers(1, 7), st.sets(st.integers(61, 80)), st.integers(1, 50)
)
def test_pages_together_are_all_that_is_wanted_newest_first_whatever_is_added(
    known: dict[int, ChatSummary], wanted: ChatFilter, limit: int,
    added: set[int], looked_at: int,
) -> None:  # fmt: skip
    expected = [chat for _, chat in sorted(known.items(), reverse=True) if wanted.matches(chat)]
    found: list[ChatSummary] = []
    before: int | None = None
    listing.MAX_SCANNED, kept = looked_at, listing.MAX_SCANNED
    try:
        while True:
            part = list_page(sorted(known), known, wanted, before, limit)
            assert len(part.chats) <= limit
            found += part.chats
            if part.next is None:
                break
            before = part.next
            known = known | {number: make_summary(number, "idea", NAMES) for number in added}
    finally:
        listing.MAX_SCANNED = kept
    assert found == expected


class CountingDict(dict[int, ChatSummary]):
    """Counts what is looked at."""

    looked = 0

    def __getitem__(self, number: int) -> ChatSummary:
        self.looked += 1
        return super().__getitem__(number)


def test_a_page_looks_at_no_more_chats_when_there_are_more() -> None:
    looked = []
    for number in (100, 10_000):
        known = CountingDict({one: make_summary(one) for one in range(1, number + 1)})
        list_page(range(1, number + 1), known, ChatFilter(), None, 50)
        looked.append(known.looked)
    assert looked == [51, 51]
    known = CountingDict({one: make_summary(one) for one in range(1, 20_001)})
    part = list_page(range(1, 20_001), known, ChatFilter(label="nothing"), None, 50)
    assert (known.looked, part.chats, part.next) == (listing.MAX_SCANNED, [], 15_001)


def test_all_that_ask_are_at_work_or_pinned_are_of_note_however_many() -> None:
    kinds: list[dict[str, Any]] = [{"asking": 1}, {"working": True}, {}]
    chats = [
        replace(make_summary(number + 1), **kinds[number % 3])
        for number in range(6 * MOST_OF_A_KIND)
    ]
    pins = {chat.id for chat in chats if not (chat.asking or chat.working)}
    assert {chat.id for chat in list_notable(chats, 10**6, pins, {})} == {one.id for one in chats}


def test_of_each_other_kind_those_of_note_were_active_last() -> None:
    kinds: list[dict[str, Any]] = [
        {"waiting": 1},
        {"waits_until": "2026-01-02T00:00:00.000Z"},
        {"outcome": "failed"},
        {"outcome": "interrupted"},
        {"damage": "not a record"},
        {"outcome": "completed", "messages": 3},
        {"outcome": "completed", "messages": 2},
    ]
    chats = [
        replace(make_summary(number + 1), updated_at=f"{number * 7919 % 10_000:04}", **kind)
        for number, kind in enumerate(kinds * 2 * MOST_OF_A_KIND)
    ]
    seen = {chat.id: 2 for chat in chats}
    found = {chat.id for chat in list_notable(chats, 10**6, (), seen)}
    for several in (kinds[:2], kinds[2:5], kinds[5:6], kinds[6:]):
        members = [
            chat
            for chat in chats
            if any(
                all(getattr(chat, name) == value for name, value in kind.items())
                for kind in several
            )
        ]
        members.sort(key=lambda chat: chat.updated_at, reverse=True)
        listed = [chat for chat in members if chat.id in found]
        assert listed == members[:MOST_OF_A_KIND]


def test_only_chats_before_the_first_page_are_of_note() -> None:
    chats = [replace(make_summary(number), asking=1) for number in range(1, 10)]
    assert [chat.id for chat in list_notable(chats, 5, (), {})] == [1, 2, 3, 4]
