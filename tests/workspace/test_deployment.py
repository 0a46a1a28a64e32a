"""A deployment's rules, without a program: who starts what, when, and how often."""

from hypothesis import given
from hypothesis import strategies as st

from agentd.workspace.definition import Deployment, Health
from agentd.workspace.deployment import (
    LOOP,
    MISSES,
    RESTART_PAUSE,
    SETTLED,
    Checked,
    DeploymentJob,
    DeploymentStatus,
    Ended,
    Kill,
    Launch,
    Launched,
    NotLaunched,
    Process,
    RestartAsked,
    StartAsked,
    StopAsked,
    Terminate,
    Wake,
    Woke,
)

AT = "2026-01-01T00:00:00.000Z"
HERE = Process(7, 1, "boot")


class Play:
    """A deployment and the world around it, in which time stands until it is moved."""

    def __init__(self, **definition):
        self.job = DeploymentJob(
            DeploymentStatus("web"), Deployment(command=("web",), **definition)
        )
        self.now = 1000.0
        self.running = 0
        self.launches = 0
        self.wake: float | None = None
        self.signals: list[str] = []

    @property
    def state(self):
        return self.job.status.state

    def hear(self, stimulus):
        if isinstance(stimulus, Ended):
            self.running -= 1
        for step in self.job.handle(stimulus, self.now, AT):
            match step:
                case Launch():
                    self.running += 1
                    self.launches += 1
                    self.job.begun(f"run{self.launches}", self.job.definition)
                    self.job.bears(HERE)
                    self.hear(Launched())
                case Wake(seconds):
                    self.wake = seconds
                case Terminate():
                    self.signals.append("term")
                case Kill():
                    self.signals.append("kill")
        return self


def test_starting_a_running_one_changes_nothing():
    play = Play().hear(StartAsked())
    before = play.job.status
    play.hear(StartAsked()).hear(StartAsked())
    assert (play.launches, play.job.status) == (1, before)
    assert play.state == "running"


def test_stop_asks_then_makes_it_end():
    play = Play(stop_seconds=3).hear(StartAsked()).hear(StopAsked())
    assert (play.state, play.signals, play.wake) == ("stopping", ["term"], 3)
    play.hear(Woke())
    assert play.signals == ["term", "kill"]
    play.hear(Ended(-9))
    assert (play.state, play.running, play.job.status.wanted) == ("stopped", 0, False)


def test_a_start_while_it_stops_comes_after_the_end():
    play = Play().hear(StartAsked()).hear(StopAsked()).hear(StartAsked())
    assert (play.launches, play.state) == (1, "stopping")
    play.hear(Ended(0))
    assert (play.state, play.wake, play.launches) == ("waiting", RESTART_PAUSE, 1)
    play.hear(Woke())
    assert (play.state, play.launches) == ("running", 2)


def test_restart_is_stop_a_short_pause_and_start():
    play = Play().hear(StartAsked()).hear(RestartAsked())
    assert (play.signals, play.launches) == (["term"], 1)
    play.hear(Ended(-15))
    assert (play.state, play.wake, play.launches) == ("waiting", RESTART_PAUSE, 1)
    play.hear(Woke())
    assert (play.state, play.launches, play.job.status.failures) == ("running", 2, 0)


def test_failures_in_a_row_wait_twice_as_long_each_up_to_the_longest_and_are_told():
    play = Play(backoff=1, backoff_longest=5).hear(StartAsked())
    waits = []
    for _ in range(LOOP):
        assert not play.job.status.crash_loop
        play.hear(Ended(1))
        waits.append(play.wake)
        assert play.state == "waiting"
        play.hear(Woke())
    assert waits == [1, 2, 4, 5, 5]
    assert play.job.status.crash_loop
    assert play.job.status.message == ""
    play.now += SETTLED
    play.hear(Ended(1))
    assert (play.wake, play.job.status.failures) == (1, 1)


def test_the_policy_decides_who_is_run_again():
    for restart, code, state in [
        ("never", 1, "failed"),
        ("never", 0, "stopped"),
        ("on-failure", 0, "stopped"),
        ("on-failure", 1, "waiting"),
        ("on-failure", None, "waiting"),
        ("always", 0, "waiting"),
    ]:
        play = Play(restart=restart).hear(StartAsked()).hear(Ended(code))
        assert (restart, code, play.state) == (restart, code, state)
        assert play.job.status.wanted == (state == "waiting")


def test_what_cannot_be_started_says_why():
    play = Play(restart="never")
    play.job.handle(StartAsked(), 0, AT)
    play.hear(NotLaunched("The program web is not installed."))
    assert (play.state, play.job.status.message) == ("failed", "The program web is not installed.")


def test_health_makes_it_running_and_its_lack_ends_it():
    health = Health(port=80, seconds=9)
    play = Play(health=health).hear(StartAsked())
    assert (play.state, play.wake) == ("starting", 9)
    play.hear(Checked("no"))
    assert play.state == "starting"
    play.hear(Checked(""))
    assert (play.state, play.wake) == ("running", None)
    for _ in range(MISSES - 1):
        play.hear(Checked("no"))
    assert play.state == "running"
    play.hear(Checked("no"))
    assert (play.state, play.signals) == ("stopping", ["term"])
    play.hear(Ended(0))
    assert (play.state, play.job.status.failures) == ("waiting", 1)
    play.hear(Woke()).hear(Woke())
    assert (play.state, play.signals) == ("stopping", ["term", "term"])
    assert "within 9 seconds" in play.job.status.message


def test_an_unhealthy_one_that_is_never_run_again_is_left_alone():
    play = Play(health=Health(port=80), restart="never").hear(StartAsked()).hear(Woke())
    assert (play.state, play.signals) == ("unhealthy", [])
    assert play.hear(Checked("")).state == "running"


def test_a_stop_while_it_waits_is_the_end():
    play = Play().hear(StartAsked()).hear(Ended(1)).hear(StopAsked())
    assert (play.state, play.wake) == ("stopped", None)
    assert play.hear(Woke()).launches == 1


ASKED = st.sampled_from([StartAsked(), StopAsked(), RestartAsked(), Woke()])
HAPPENS = st.one_of(
    ASKED,
    st.sampled_from([Ended(0), Ended(1), Ended(None), Checked(""), Checked("no")]),
)


@given(st.lists(HAPPENS, max_size=40), st.sampled_from(["never", "on-failure", "always"]))
def test_there_is_never_more_than_one_and_it_can_always_be_stopped(stimuli, restart):
    play = Play(restart=restart, health=Health(port=80))
    for stimulus in stimuli:
        if isinstance(stimulus, Ended) and not play.running:
            continue
        if isinstance(stimulus, Checked) and not play.running:
            continue
        play.hear(stimulus)
        assert play.running in (0, 1)
        alive = play.state in ("starting", "running", "unhealthy", "stopping")
        assert alive == bool(play.running)
    play.hear(StopAsked())
    if play.running:
        play.hear(Woke())
        assert play.signals[-1] == "kill"
        play.hear(Ended(-9))
    assert (play.running, play.job.status.wanted) == (0, False)
    assert play.state in ("stopped", "failed")
    launches = play.launches
    assert play.hear(Woke()).launches == launches
