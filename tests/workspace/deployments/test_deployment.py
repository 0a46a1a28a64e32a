"""A deployment's rules, without a program: who starts what, when, and how often."""

from hypothesis import given
from hypothesis import strategies as st

from agentd.system.process_identity import Process
from agentd.workspace.definitions import Deployment, HealthCheck
from agentd.workspace.deployments.deployment import (
    LOOP,
    MISSES,
    RESTART_PAUSE,
    SETTLED,
    DeploymentJob,
    DeploymentStatus,
    HealthChecked,
    KillProgram,
    LaunchFailed,
    LaunchProgram,
    LaunchSucceeded,
    ProgramEnded,
    RestartRequested,
    SetTimer,
    StartRequested,
    StopRequested,
    TerminateProgram,
    TimerFired,
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
        if isinstance(stimulus, ProgramEnded):
            self.running -= 1
        for step in self.job.handle(stimulus, self.now, AT):
            match step:
                case LaunchProgram():
                    self.running += 1
                    self.launches += 1
                    self.job.prepare_run(f"run{self.launches}", self.job.definition)
                    self.job.set_process(HERE)
                    self.hear(LaunchSucceeded())
                case SetTimer(seconds):
                    self.wake = seconds
                case TerminateProgram():
                    self.signals.append("term")
                case KillProgram():
                    self.signals.append("kill")
        return self


def test_starting_a_running_one_changes_nothing():
    play = Play().hear(StartRequested())
    before = play.job.status
    play.hear(StartRequested()).hear(StartRequested())
    assert (play.launches, play.job.status) == (1, before)
    assert play.state == "running"


def test_stop_asks_then_makes_it_end():
    play = Play(stop_seconds=3).hear(StartRequested()).hear(StopRequested())
    assert (play.state, play.signals, play.wake) == ("stopping", ["term"], 3)
    play.hear(TimerFired())
    assert play.signals == ["term", "kill"]
    play.hear(ProgramEnded(-9))
    assert (play.state, play.running, play.job.status.wanted) == ("stopped", 0, False)


def test_a_start_while_it_stops_comes_after_the_end():
    play = Play().hear(StartRequested()).hear(StopRequested()).hear(StartRequested())
    assert (play.launches, play.state) == (1, "stopping")
    play.hear(ProgramEnded(0))
    assert (play.state, play.wake, play.launches) == ("waiting", RESTART_PAUSE, 1)
    play.hear(TimerFired())
    assert (play.state, play.launches) == ("running", 2)


def test_restart_is_stop_a_short_pause_and_start():
    play = Play().hear(StartRequested()).hear(RestartRequested())
    assert (play.signals, play.launches) == (["term"], 1)
    play.hear(ProgramEnded(-15))
    assert (play.state, play.wake, play.launches) == ("waiting", RESTART_PAUSE, 1)
    play.hear(TimerFired())
    assert (play.state, play.launches, play.job.status.failures) == ("running", 2, 0)


def test_failures_in_a_row_wait_twice_as_long_each_up_to_the_longest_and_are_reported():
    play = Play(backoff=1, backoff_max=5).hear(StartRequested())
    waits = []
    for _ in range(LOOP):
        assert not play.job.status.crash_loop
        play.hear(ProgramEnded(1))
        waits.append(play.wake)
        assert play.state == "waiting"
        play.hear(TimerFired())
    assert waits == [1, 2, 4, 5, 5]
    assert play.job.status.crash_loop
    assert play.job.status.message == ""
    play.now += SETTLED
    play.hear(ProgramEnded(1))
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
        play = Play(restart=restart).hear(StartRequested()).hear(ProgramEnded(code))
        assert (restart, code, play.state) == (restart, code, state)
        assert play.job.status.wanted == (state == "waiting")


def test_what_cannot_be_started_says_why():
    play = Play(restart="never")
    play.job.handle(StartRequested(), 0, AT)
    play.hear(LaunchFailed("The program web is not installed."))
    assert (play.state, play.job.status.message) == ("failed", "The program web is not installed.")


def test_health_makes_it_running_and_its_lack_ends_it():
    health = HealthCheck(port=80, start_seconds=9)
    play = Play(health=health).hear(StartRequested())
    assert (play.state, play.wake) == ("starting", 9)
    play.hear(HealthChecked("no"))
    assert play.state == "starting"
    play.hear(HealthChecked(""))
    assert (play.state, play.wake) == ("running", None)
    for _ in range(MISSES - 1):
        play.hear(HealthChecked("no"))
    assert play.state == "running"
    play.hear(HealthChecked("no"))
    assert (play.state, play.signals) == ("stopping", ["term"])
    play.hear(ProgramEnded(0))
    assert (play.state, play.job.status.failures) == ("waiting", 1)
    play.hear(TimerFired()).hear(TimerFired())
    assert (play.state, play.signals) == ("stopping", ["term", "term"])
    assert "within 9 seconds" in play.job.status.message


def test_an_unhealthy_one_that_is_never_run_again_is_left_alone():
    play = (
        Play(health=HealthCheck(port=80), restart="never").hear(StartRequested()).hear(TimerFired())
    )
    assert (play.state, play.signals) == ("unhealthy", [])
    assert play.hear(HealthChecked("")).state == "running"


def test_a_stop_while_it_waits_is_the_end():
    play = Play().hear(StartRequested()).hear(ProgramEnded(1)).hear(StopRequested())
    assert (play.state, play.wake) == ("stopped", None)
    assert play.hear(TimerFired()).launches == 1


ASKED = st.sampled_from([StartRequested(), StopRequested(), RestartRequested(), TimerFired()])
HAPPENS = st.one_of(
    ASKED,
    st.sampled_from(
        [
            ProgramEnded(0),
            ProgramEnded(1),
            ProgramEnded(None),
            HealthChecked(""),
            HealthChecked("no"),
        ]
    ),
)


@given(st.lists(HAPPENS, max_size=40), st.sampled_from(["never", "on-failure", "always"]))
def test_there_is_never_more_than_one_and_it_can_always_be_stopped(stimuli, restart):
    play = Play(restart=restart, health=HealthCheck(port=80))
    for stimulus in stimuli:
        if isinstance(stimulus, ProgramEnded) and not play.running:
            continue
        if isinstance(stimulus, HealthChecked) and not play.running:
            continue
        play.hear(stimulus)
        assert play.running in (0, 1)
        alive = play.state in ("starting", "running", "unhealthy", "stopping")
        assert alive == bool(play.running)
    play.hear(StopRequested())
    if play.running:
        play.hear(TimerFired())
        assert play.signals[-1] == "kill"
        play.hear(ProgramEnded(-9))
    assert (play.running, play.job.status.wanted) == (0, False)
    assert play.state in ("stopped", "failed")
    launches = play.launches
    assert play.hear(TimerFired()).launches == launches
