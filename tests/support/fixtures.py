"""A daemon of one's own for each test, or one for all tests of a module."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.daemon import PATIENCE, SERVING, Beats, Client, Engine, Serving

Serve = Callable[..., Serving]


@pytest.fixture(autouse=True, scope="session")
def _patient() -> Iterator[None]:
    """All tests call from one address, and many with wrong keys: nobody is made to wait.

    Nor is anybody hung up on because a slow machine makes him slow, or lets him idle.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentd.http.throttle.DELAY_SECONDS", 0.0)
        patch.setattr("agentd.http.context.HEAD_TIMEOUT", 2 * PATIENCE)
        patch.setattr("agentd.http.context.BODY_TIMEOUT", 2 * PATIENCE)
        yield


@pytest.fixture(autouse=True)
def _hung_up() -> Iterator[None]:
    """The clients of a daemon that is several tests' do not gather their connections."""
    yield
    for serving in SERVING:
        serving.hang_up()


@pytest.fixture
def beats() -> Iterator[Beats]:
    """A clock for events that must come within some time."""
    with Beats() as made:
        yield made


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start daemons; all of them stop with the test."""
    with ExitStack() as stack:
        yield lambda folder=tmp_path, engine=None, **settings: stack.enter_context(
            Serving(folder, engine, **settings)
        )


@pytest.fixture
def daemon(serve: Serve) -> Serving:
    """A daemon over empty folders."""
    return serve()


@pytest.fixture
def engine(daemon: Serving) -> Engine:
    """The daemon's engine."""
    return daemon.engine


@pytest.fixture
def client(daemon: Serving) -> Client:
    """A client with a good key."""
    return daemon.client()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One daemon for all tests of a module: for those that leave no trace."""
    with Serving(tmp_path_factory.mktemp("daemon")) as serving:
        yield serving


@pytest.fixture
def caller(shared: Serving) -> Iterator[Client]:
    """A client of the shared daemon with a good key; its own, for the daemon closes idle ones."""
    client = shared.client()
    yield client
    client.close()
