"""A supplier of language models on loopback that answers by a script.

It is a real HTTP server on a thread and a loop of its own, so that plain tests, asynchronous
ones and programs can all call it.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from tests.supplier.request import Request
from tests.supplier.server import running_server
from tests.supplier.steps import Answer, Made, Refuse, Stall, Step, normalize_step

OVER = Refuse(400, "The script has no step left for this request")
"""The answer to a request beyond the script."""

_LONGEST = 60.0


class Supplier:
    """``with Supplier() as supplier:`` serves at ``supplier.url`` until the block ends."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Request] = []
        """The requests for an answer of a model, in their order."""
        self.others: list[Request] = []
        """All others: embeddings, lists of models, counts of tokens, unknown paths."""
        self.models = ["scripted-large", "scripted-small"]
        """The models that ``/v1/models`` lists."""
        self.pages = 1
        """The number of pages of that list, where the dialect has pages."""
        self.documents: dict[str, Any] = {}
        """What other paths are answered: JSON, bytes, or a status with one of them."""
        self.counts_embeddings = True
        """Whether replies with embeddings have a usage."""
        self.about: dict[str, dict[str, Any]] = {}
        """Further fields of a model in the list, by its name."""
        self._steps: deque[Step] = deque()
        self._always: list[Step] = []
        self._stalls: list[Stall] = []
        self._changed = threading.Condition()
        self._ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="supplier")
        self._failed: OSError | None = None

    @property
    def base(self) -> str:
        """The base URL for OpenAI's clients; Anthropic's use ``url``."""
        return f"{self.url}/v1"

    @property
    def left(self) -> int:
        """The number of steps that no request has taken yet."""
        return len(self._steps)

    def script(self, *steps: Step) -> None:
        """Put steps at the end of the script; a request beyond it is answered ``OVER``."""
        with self._changed:
            self._steps.extend(steps)

    def forget(self) -> None:
        """Drop what is left of the script."""
        with self._changed:
            self._steps.clear()

    def answer_always(self, *choices: Step) -> None:
        """Add steps that are tried before the script for every request, and never used up.

        A function that gives None leaves the request to the next one, and in the end to the
        script: real agents make calls of their own (titles, summaries) beside those of a test.
        """
        with self._changed:
            self._always.extend(choices)

    def wait_for(self, count: int, seconds: float = 60.0) -> list[Request]:
        """Wait until there are ``count`` requests and return them; else raise ``TimeoutError``."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= count, seconds):
                raise TimeoutError(f"{len(self.requests)} of {count} requests came")
            return list(self.requests)

    def take(self, request: Request) -> tuple[int, Answer | Refuse]:
        """Record a request for an answer; return its number, from 1, and the answer."""
        with self._changed:
            self.requests.append(request)
            number = len(self.requests)
            made = next((made for made in self._iter_answers(request) if made is not None), OVER)
            self._changed.notify_all()
        step = normalize_step(made)
        if isinstance(step, Answer):
            self._stalls += [fault for fault in step.faults if isinstance(fault, Stall)]
        return number, step

    def _iter_answers(self, request: Request) -> Iterator[Made | None]:
        yield from (_resolve(step, request) for step in self._always)
        while self._steps:
            yield _resolve(self._steps.popleft(), request)

    def __enter__(self) -> Self:
        with self._changed:
            self._thread.start()
            self._changed.wait_for(lambda: self.url or self._failed, _LONGEST)
        if self._failed:
            raise self._failed
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._loop
        for stall in self._stalls:
            stall.release()
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(_LONGEST)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            with self._changed:
                self._failed = error
                self._changed.notify_all()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with running_server(self) as port:
            with self._changed:
                self.url = f"http://127.0.0.1:{port}"
                self._changed.notify_all()
            await self._ended.wait()


def _resolve(step: Step, request: Request) -> Made | None:
    return step(request) if callable(step) else step
