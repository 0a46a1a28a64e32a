"""Questions of a turn: durable, shown, answered by a person, a rule, or nobody."""

import asyncio
from collections.abc import AsyncGenerator
from decimal import Decimal

import pytest

from agentd.agent import service
from agentd.agent.approval import Policy, Rule
from agentd.agent.approvals import BY_NOBODY, BY_RULE, LONGEST, TOO_LONG
from agentd.agent.budget import Budget
from agentd.agent.engine import Answer, Approver, Assignment, Progress, Question, Replied
from agentd.chats.approval import Approval
from agentd.chats.service import NewChat
from agentd.chats.turns import Turns
from agentd.errors import NotFound, Unavailable
from agentd.events import ApprovalUpdate
from tests.conftest import ME, Life, dispatcher_of, living, until

pytestmark = pytest.mark.gen_test

PUSH = Question("shell", "shell", "git push", "it is done")


class Asking:
    """An engine that asks what a test says, and replies with the answers."""

    name = "asking"

    def __init__(self, *questions: Question) -> None:
        self.questions = questions
        self.answers: list[Answer] = []

    async def run(
        self, assignment: Assignment, approver: Approver
    ) -> AsyncGenerator[Progress, None]:
        self.answers += await asyncio.gather(*(approver.ask(one) for one in self.questions))
        yield Replied("asked", cost=Decimal(1))


async def asked(life: Life, number: int, many: int = 1) -> list[Approval]:
    """The open questions of a chat, once there are so many."""
    await until(lambda: life.chats.summary(number).asking == many)
    return list((await life.chats.get(number)).agent.asked)


def told(life: Life) -> list[tuple[int, str]]:
    return [(e.approval.id, e.approval.state) for e in life.heard if isinstance(e, ApprovalUpdate)]


async def start(life: Life, engine: Asking, **agent: object):
    dispatcher = dispatcher_of(life, engine, **agent)
    dispatcher.start(life.chats.summaries())
    number = (await life.chats.create(NewChat(prompt="go"), ME)).id
    return dispatcher, dispatcher._approvals, number


async def test_a_question_is_shown_waits_and_is_answered_by_a_person(layout):
    engine = Asking(PUSH)
    async with living(layout) as life:
        dispatcher, approvals, number = await start(life, engine)
        (question,) = await asked(life, number)
        assert life.chats.summary(number).status == "processing"
        shown = (await life.history(number))[-1]
        assert (shown.id, shown.role, shown.tool) == (question.id, "tool", "approval")
        assert "git push" in shown.text
        assert (question.kind, question.subject, question.reason) == (
            "shell",
            "git push",
            "it is done",
        )
        answered = await approvals.answer(
            number, question.id, allowed=True, session=False, note="", by="user:anna"
        )
        assert (answered.state, answered.answered_by) == ("allowed", "user:anna")
        assert (await life.chats.rest(number, 60)).outcome == "completed"
        assert engine.answers == [Answer(True)]
        assert told(life) == [(question.id, "open"), (question.id, "allowed")]
        await dispatcher.stop(0)


async def test_a_denial_tells_the_engine_what_the_person_said(layout):
    engine = Asking(PUSH)
    async with living(layout) as life:
        dispatcher, approvals, number = await start(life, engine)
        (question,) = await asked(life, number)
        await approvals.answer(
            number, question.id, allowed=False, session=True, note="not on Fridays", by=ME
        )
        await life.chats.rest(number, 60)
        assert engine.answers == [Answer(False, reason="not on Fridays")]
        assert (await life.chats.get(number)).agent.granted == ()
        await dispatcher.stop(0)


async def test_a_question_is_answered_once_however_many_try(layout):
    engine = Asking(PUSH)
    async with living(layout) as life:
        dispatcher, approvals, number = await start(life, engine)
        (question,) = await asked(life, number)

        async def answer(allowed: bool) -> bool:
            try:
                await approvals.answer(
                    number, question.id, allowed=allowed, session=False, note="", by=ME
                )
            except NotFound:
                return False
            return True

        tries = await asyncio.gather(*(answer(bool(n % 2)) for n in range(20)))
        assert tries.count(True) == 1
        assert len(told(life)) == 2
        await life.chats.rest(number, 60)
        assert not await answer(True)
        await dispatcher.stop(0)


async def test_when_nobody_answers_in_time_it_is_denied_and_the_turn_goes_on(layout):
    engine = Asking(PUSH)
    async with living(layout) as life:
        dispatcher, _, number = await start(life, engine, policy=Policy(seconds=0.05))
        assert (await life.chats.rest(number, 60)).outcome == "completed"
        assert engine.answers == [Answer(False, reason=BY_NOBODY)]
        assert [state for _, state in told(life)] == ["open", "expired"]
        await dispatcher.stop(0)


async def test_what_a_rule_decides_is_asked_of_nobody(layout):
    policy = Policy(
        "deny", (Rule("allow", kind="shell", subject="git *"), Rule("deny", kind="read"))
    )
    engine = Asking(PUSH, Question("outside", "write_file", "/x"), Question("read", "r", "x"))
    async with living(layout) as life:
        dispatcher, _, number = await start(life, engine, policy=policy)
        await life.chats.rest(number, 60)
        no = Answer(False, reason=BY_RULE)
        assert engine.answers == [Answer(True), no, no]
        assert told(life) == []
        await dispatcher.stop(0)


async def test_leave_for_the_session_holds_for_the_chat_over_restarts_and_for_no_other(layout):
    async with living(layout) as life:
        dispatcher, approvals, number = await start(life, Asking(PUSH))
        (question,) = await asked(life, number)
        await approvals.answer(number, question.id, allowed=True, session=True, note="", by=ME)
        await life.chats.rest(number, 60)
        await dispatcher.stop(0)
    engine = Asking(PUSH)
    async with living(layout) as life:
        dispatcher, _, other = await start(life, engine)
        await asked(life, other)
        await life.chats.append(number, "again", "", ME)
        await life.chats.rest(number, 60)
        assert engine.answers == [Answer(True)]
        await dispatcher.stop(0)


async def test_the_open_questions_of_a_turn_that_is_stopped_are_withdrawn(layout):
    async with living(layout) as life:
        dispatcher, approvals, number = await start(life, Asking(PUSH, PUSH))
        first, second = await asked(life, number, 2)
        assert await dispatcher.stop_turn(number, ME)
        assert life.chats.summary(number).asking == 0
        await dispatcher.stop(0)
        assert sorted(told(life)[2:]) == [(first.id, "withdrawn"), (second.id, "withdrawn")]
        with pytest.raises(NotFound):
            await approvals.answer(number, first.id, allowed=True, session=False, note="", by=ME)


async def test_what_cannot_be_shown_whole_is_refused_and_nobody_is_asked(layout):
    shown = Question("shell", "shell", "x" * LONGEST)
    hidden = Question("shell", "shell", "true " + "x" * LONGEST + "; rm -rf .")
    engine = Asking(hidden)
    async with living(layout) as life:
        dispatcher, _, number = await start(life, engine)
        await life.chats.rest(number, 60)
        assert engine.answers == [Answer(False, reason=TOO_LONG)]
        engine.questions = (shown,)
        await life.chats.append(number, "again", "", ME)
        (question,) = await asked(life, number)
        assert question.subject == shown.subject
        assert shown.subject in (await life.chats.get(number)).recent[-1].text
        await dispatcher.stop(0)


async def test_a_place_that_a_command_names_is_told_with_the_question(layout):
    why = "Files of this name hold passwords and keys."
    engine = Asking(Question("shell", "shell", "cat .env", "to look"))
    async with living(layout) as life:
        dispatcher, _, number = await start(
            life, engine, policy=Policy("auto"), named_in=lambda _: why
        )
        (question,) = await asked(life, number)
        assert question.reason == f"{why}\nto look"
        await dispatcher.stop(0)


@pytest.fixture
def slow_disk(monkeypatch):
    """Answers to questions wait, before they are safe on disk, until they may be."""
    real = Turns.answer
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def answer(*arguments):
        await real(*arguments)
        begun.set()
        await may_end.wait()

    monkeypatch.setattr(Turns, "answer", answer)
    return begun, may_end


async def test_a_question_that_is_answered_while_its_turn_is_stopped_has_one_answer(
    layout, slow_disk
):
    begun, may_end = slow_disk
    async with living(layout) as life:
        dispatcher, approvals, number = await start(life, Asking(PUSH))
        (question,) = await asked(life, number)
        answering = asyncio.create_task(
            approvals.answer(number, question.id, allowed=True, session=False, note="", by=ME)
        )
        await begun.wait()
        assert await dispatcher.stop_turn(number, ME)
        may_end.set()
        assert (await answering).state == "allowed"
        await dispatcher.stop(0)
        assert told(life) == [(question.id, "open"), (question.id, "allowed")]


async def test_an_answer_reaches_the_engine_though_who_gave_it_left(layout, slow_disk):
    """As a bot does whose settings change."""
    begun, may_end = slow_disk
    engine = Asking(PUSH)
    async with living(layout) as life:
        dispatcher, approvals, number = await start(life, engine)
        (question,) = await asked(life, number)
        answering = asyncio.create_task(
            approvals.answer(number, question.id, allowed=True, session=False, note="", by=ME)
        )
        await begun.wait()
        answering.cancel()
        await asyncio.wait([answering])
        may_end.set()
        await until(lambda: engine.answers == [Answer(True)])
        assert (await life.chats.rest(number, 60)).outcome == "completed"
        assert told(life) == [(question.id, "open"), (question.id, "allowed")]
        await dispatcher.stop(0)


async def test_a_crash_leaves_no_question_open(layout):
    async with living(layout, crash=True) as life:
        dispatcher, _, number = await start(life, Asking(PUSH))
        await asked(life, number)
        real, life.files.append = life.files.append, _dead
        await dispatcher.stop(0)
        life.files.append = real
    async with living(layout) as life:
        assert life.chats.summary(number).asking == 1
        await life.turns.end_interrupted()
        assert life.chats.summary(number).asking == 0


def _dead(*_: object) -> None:
    raise Unavailable("dead")


async def test_a_spent_budget_holds_the_queue_and_asks_and_an_answer_lets_it_go_on(layout):
    """A budget pauses and asks; it does not kill."""
    budget = Budget(per_chat=Decimal(2))
    async with living(layout) as life:
        dispatcher, approvals, number = await start(life, Asking(), budget=budget)
        for text in "abcd":
            await life.chats.append(number, text, "", ME)
        (question,) = await asked(life, number)
        summary = life.chats.summary(number)
        assert (summary.cost, summary.waiting, summary.status) == (Decimal(2), 3, "queued")
        assert "its budget is 2 USD" in summary.held
        assert question.kind == "budget"
        await approvals.answer(number, question.id, allowed=False, session=False, note="", by=ME)
        assert life.chats.summary(number).held
        await life.chats.release(number, ME)  # by hand, without an allowance: it asks again
        (question,) = await asked(life, number)
        await approvals.answer(number, question.id, allowed=True, session=False, note="", by=ME)
        (question,) = await asked(life, number)  # as much again is spent
        assert life.chats.summary(number).cost == Decimal(4)
        assert life.chats.summary(number).waiting == 1
        await dispatcher.stop(0)


async def test_the_budget_of_a_day_holds_every_chat_until_the_day_is_over(layout):
    async with living(layout) as life:
        dispatcher, _, first = await start(life, Asking(), budget=Budget(per_day=Decimal(1)))
        await life.chats.rest(first, 60)
        second = (await life.chats.create(NewChat(prompt="x"), ME)).id
        await asked(life, second)
        assert "today" in life.chats.summary(second).held
        life.clock.move(86400)
        third = (await life.chats.create(NewChat(prompt="y"), ME)).id
        assert (await life.chats.rest(third, 60)).outcome == "completed"
        await dispatcher.stop(0)


async def test_a_chat_that_waits_for_a_person_keeps_no_other_from_work(layout):
    """Each waiting turn leaves its place until it is answered."""
    engine = Asking(PUSH)
    async with living(layout) as life:
        dispatcher, approvals, first = await start(life, engine, parallel=1)
        (question,) = await asked(life, first)
        engine.questions = ()
        second = (await life.chats.create(NewChat(prompt="no question"), ME)).id
        assert (await life.chats.rest(second, 60)).outcome == "completed"
        assert life.chats.summary(first).status == "processing"
        await approvals.answer(first, question.id, allowed=True, session=False, note="", by=ME)
        assert (await life.chats.rest(first, 60)).outcome == "completed"
        third = (await life.chats.create(NewChat(prompt="and on"), ME)).id
        assert (await life.chats.rest(third, 60)).outcome == "completed"
        await dispatcher.stop(0)


async def test_several_questions_of_a_turn_leave_its_place_once(layout):
    engine = Asking(PUSH, Question("network", "fetch", "https://a.example"))
    async with living(layout) as life:
        dispatcher, approvals, first = await start(life, engine, parallel=1)
        questions = await asked(life, first, 2)
        for question in questions:
            await approvals.answer(first, question.id, allowed=True, session=False, note="", by=ME)
        assert (await life.chats.rest(first, 60)).outcome == "completed"
        await until(lambda: not dispatcher._busy and not dispatcher._resting)
        await dispatcher.stop(0)


async def test_a_lifted_budget_lets_the_queues_go_on_that_it_held(layout):
    money = Budget(per_day=Decimal(1))
    async with living(layout) as life:
        dispatcher, _, first = await start(life, Asking(), budget=lambda: money)
        await life.chats.rest(first, 60)
        second = (await life.chats.create(NewChat(prompt="x"), ME)).id
        await asked(life, second)
        dispatcher.look()
        money = Budget(per_day=Decimal(100))
        dispatcher.look()
        await until(lambda: life.chats.summary(second).outcome == "completed")
        assert life.chats.summary(second).asking == 0
        await dispatcher.stop(0)


async def test_on_another_day_the_queues_go_on_that_the_budget_of_a_day_held(layout, monkeypatch):
    monkeypatch.setattr(service, "LONGEST_SLEEP", 0.01)
    async with living(layout) as life:
        dispatcher, _, first = await start(life, Asking(), budget=Budget(per_day=Decimal(1)))
        await life.chats.rest(first, 60)
        second = (await life.chats.create(NewChat(prompt="x"), ME)).id
        await asked(life, second)
        life.clock.move(86400)
        await until(lambda: life.chats.summary(second).outcome == "completed")
        await dispatcher.stop(0)


async def test_a_queue_that_a_person_stopped_stays_held_when_a_budget_is_lifted(layout):
    async with living(layout) as life:
        dispatcher, _, first = await start(life, Asking(PUSH), budget=Budget(per_day=Decimal(9)))
        await asked(life, first)
        await life.chats.append(first, "next", "", ME)
        await dispatcher.stop_turn(first, ME)
        assert not await dispatcher._assigner.release_within_budget(first)
        assert life.chats.summary(first).held
        await dispatcher.stop(0)
