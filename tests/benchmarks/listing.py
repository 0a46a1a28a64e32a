"""The cost of a page of the list of chats when there are many."""

from collections.abc import Iterator

from tests.benchmarks import servers
from tests.benchmarks.load import Shot
from tests.benchmarks.measures import Row, Size, compare_rates, create_scratch_folder
from tests.benchmarks.servers import Gun, encode_request, running_server
from tests.benchmarks.states import Maker

FEW = 100


def measure_chats(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure a page of fifty chats, from among many and from among a hundred."""
    with create_scratch_folder() as small, create_scratch_folder() as large:
        few, many = Maker(small), Maker(large)
        for maker, number in ((few, FEW), (many, size.chats)):
            for _ in range(number):
                maker.add_chat(3)
        keys = few.finish(), many.finish()
        with (
            running_server(servers.start_held_daemon(few.layout)) as one,
            running_server(servers.start_held_daemon(many.layout)) as other,
        ):
            for what, path in (
                ("the first page", "/api/chats"),
                ("a page in the middle", f"/api/chats?before={FEW // 2 + 20}"),
                ("a page by title", "/api/chats?text=measured"),
            ):
                first, second = (
                    Shot(server.port, [encode_request("GET", path, key)], seconds=size.seconds)
                    for server, key in zip((one, other), keys, strict=True)
                )
                ratio = compare_rates(gun, first, second, size.rounds)
                yield Row(f"GET chats, {what}: time with {size.chats:,}, of {FEW}", ratio, 1.5)
