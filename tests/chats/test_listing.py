"""A page of the list of chats: stable, complete, and never dearer for there being more chats."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from agentd.chats import listing
from agentd.chats.fold import Chat, Summary
from agentd.chats.listing import Filter, page

NAMES = ("bug", "idea", "Später")


def summary(number: int, title: str = "", labels: tuple[str, ...] = ()) -> Summary:
    chat = Chat(number, title=title, created_at="2026-01-01T00:00:00.000Z", cost=Decimal(0))
    chat.labels = labels
    return chat.summary()


@st.composite
def shelves(draw: st.DrawFn) -> dict[int, Summary]:
    numbers = draw(st.sets(st.integers(1, 60)))
    return {
        number: summary(
            number, draw(st.sampled_from(NAMES)), draw(st.sampled_from([(), NAMES[:1], NAMES]))
        )
        for number in sorted(numbers)
    }


filters = st.builds(Filter, label=st.sampled_from(["", *NAMES]))


@given(shelves(), filters, st.integers(1, 7), st.sets(st.integers(61, 80)), st.integers(1, 50))
def test_pages_together_are_all_that_is_wanted_newest_first_whatever_is_added(
    known: dict[int, Summary], wanted: Filter, limit: int,
    added: set[int], looked_at: int,
) -> None:  # fmt: skip
    expected = [chat for _, chat in sorted(known.items(), reverse=True) if wanted.matches(chat)]
    found: list[Summary] = []
    before: int | None = None
    listing.LOOKED_AT, kept = looked_at, listing.LOOKED_AT
    try:
        while True:
            part = page(sorted(known), known, wanted, before, limit)
            assert len(part.chats) <= limit
            found += part.chats
            if part.next is None:
                break
            before = part.next
            known = known | {number: summary(number, "idea", NAMES) for number in added}
    finally:
        listing.LOOKED_AT = kept
    assert found == expected


class Counted(dict[int, Summary]):
    """Counts what is looked at."""

    looked = 0

    def __getitem__(self, number: int) -> Summary:
        self.looked += 1
        return super().__getitem__(number)


def test_a_page_looks_at_no_more_chats_when_there_are_more() -> None:
    looked = []
    for number in (100, 10_000):
        known = Counted({one: summary(one) for one in range(1, number + 1)})
        page(range(1, number + 1), known, Filter(), None, 50)
        looked.append(known.looked)
    assert looked == [51, 51]
    known = Counted({one: summary(one) for one in range(1, 20_001)})
    part = page(range(1, 20_001), known, Filter(label="nothing"), None, 50)
    assert (known.looked, part.chats, part.next) == (listing.LOOKED_AT, [], 15_001)
