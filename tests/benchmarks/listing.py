"""What a page of the list of chats costs when there are many."""

from collections.abc import Iterator

from tests.benchmarks import servers
from tests.benchmarks.load import Shot
from tests.benchmarks.measures import Row, Size, ratio_of_rates, scratch_folder
from tests.benchmarks.servers import Gun, request, running
from tests.benchmarks.states import Maker

FEW = 100


def chats(size: Size, gun: Gun) -> Iterator[Row]:
    """A page of fifty chats, from among many and from among a hundred."""
    with scratch_folder() as small, scratch_folder() as large:
        few, many = Maker(small), Maker(large)
        for maker, number in ((few, FEW), (many, size.chats)):
            for _ in range(number):
                maker.chat(3)
        keys = few.finish(), many.finish()
        with (
            running(servers.held(few.layout)) as one,
            running(servers.held(many.layout)) as other,
        ):
            for what, path in (
                ("the first page", "/api/chats"),
                ("a page in the middle", f"/api/chats?before={FEW // 2 + 20}"),
                ("a page by title", "/api/chats?text=measured"),
            ):
                shots = [
                    Shot(server.port, [request("GET", path, key)], seconds=size.seconds)
                    for server, key in zip((one, other), keys, strict=True)
                ]
                ratio = ratio_of_rates(gun, *shots, size.rounds)
                yield Row(f"GET chats, {what}: time with {size.chats:,}, of {FEW}", ratio, 1.5)
