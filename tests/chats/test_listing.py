"""A page of the list of chats: stable, complete, and never dearer for there being more chats."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from agentd.chats import listing
from agentd.chats.listing import ChatFilter, list_page
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
