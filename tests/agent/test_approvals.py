"""Questions of a turn: durable, shown, answered by a person, a rule, or nobody."""

import asyncio
from collections.abc import AsyncGenerator
from decimal import Decimal
from functools import partial

import pytest

from agentd.agent import dispatcher as service
from agentd.agent.approval_rules import BY_SETTINGS, ApprovalPolicy, ApprovalRule
from agentd.agent.approvals import BY_NOBODY, DENIED_FOR_CHAT, MAX_QUESTION_LENGTH, TOO_LONG
from agentd.agent.budget import SpendBudget
from agentd.agent.engine import (
    ApprovalAnswer,
    Approver,
    EngineEvent,
    Question,
    ReplyCompleted,
    TurnRequest,
)
from agentd.chats.approval import Approval, ApprovalDecision
from agentd.chats.events import ApprovalUpdate, ChatStateEvent
from agentd.chats.service import NewChat
from agentd.chats.turns import STOPPED, TurnRecorder
from agentd.core.errors import BadRequest, NotFound, Unavailable
from agentd.core.events import Event
from tests.conftest import ME, Services, build_dispatcher, running_services, until

pytestmark = pytest.mark.gen_test

PUSH = Question("shell", "shell", "git push", "it is done")


class AskingEngine:
    """An engine that asks what a test says, and replies with the answers."""

    name = "asking"

    def __init__(self, *questions: Question) -> None:
        self.questions = questions
        self.answers: list[ApprovalAnswer] = []

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        self.answers += await asyncio.gather(*(approver.ask(one) for one in self.questions))
        yield ReplyCompleted("asked", cost=Decimal(1))


async def wait_for_questions(services: Services, number: int, many: int = 1) -> list[Approval]:
    """Return the open questions of a chat, once there are so many."""
    await until(lambda: services.chats.get_summary(number).asking == many)
    return list((await services.chats.get(number)).agent.asked)


def list_updates(services: Services) -> list[tuple[int, str]]:
    return [
        (e.approval.id, e.approval.state) for e in services.heard if isinstance(e, ApprovalUpdate)
    ]


async def test_a_stop_does_not_wait_for_the_answer_of_a_person(layout):
    """Its patience is for turns that can end by themselves."""
    async with running_services(layout) as services:
        dispatcher, _, number = await start(services, AskingEngine(PUSH))
        await wait_for_questions(services, number)
        async with asyncio.timeout(60):
            await dispatcher.stop(3600)
        assert services.chats.get_summary(number).outcome == "interrupted"


async def test_a_stop_waits_for_a_turn_that_goes_on_until_it_asks(layout):
    engine, may_ask = AskingEngine(PUSH), asyncio.Event()

    async def run(assignment: TurnRequest, approver: Approver):
        await may_ask.wait()
        async for event in AskingEngine.run(engine, assignment, approver):
            yield event

    engine.run = run
    async with running_services(layout) as services:
        dispatcher, _, number = await start(services, engine)
        await until(lambda: dispatcher.get_turn_status(number))
        stopping = asyncio.create_task(dispatcher.stop(3600))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not stopping.done()
        may_ask.set()
        async with asyncio.timeout(60):
            await stopping
        assert services.chats.get_summary(number).outcome == "interrupted"
        assert engine.answers == []


async def start(services: Services, engine: AskingEngine, **agent: object):
    dispatcher = build_dispatcher(services, engine, **agent)
    dispatcher.start(services.chats.list_summaries())
    number = (await services.chats.create(NewChat(prompt="go"), ME)).id
    return dispatcher, dispatcher._approvals, number


async def test_a_question_is_shown_waits_and_is_answered_by_a_person(layout):
    engine = AskingEngine(PUSH)
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, engine)
        (question,) = await wait_for_questions(services, number)
        assert services.chats.get_summary(number).status == "processing"
        shown = (await services.history(number))[-1]
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
        assert (await services.chats.wait_until_idle(number, 60)).outcome == "completed"
        assert engine.answers == [ApprovalAnswer(True, by_person=True, by="user:anna")]
        assert list_updates(services) == [(question.id, "open"), (question.id, "allowed")]
        await dispatcher.stop(0)


async def test_a_denial_shows_the_engine_what_the_person_said(layout):
    engine = AskingEngine(PUSH)
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, engine)
        (question,) = await wait_for_questions(services, number)
        await approvals.answer(
            number, question.id, allowed=False, session=False, note="not on Fridays", by=ME
        )
        await services.chats.wait_until_idle(number, 60)
        assert engine.answers == [
            ApprovalAnswer(False, False, "not on Fridays", "not on Fridays", by_person=True, by=ME)
        ]
        assert (await services.chats.get(number)).agent.standing == ()
        await dispatcher.stop(0)


async def test_the_history_keeps_what_was_decided_by_whom_and_why_over_a_restart(layout):
    which = Question("question", "ask_person", "Which?", choices=("red", "blue"))
    engine = AskingEngine(PUSH, which)
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, engine)
        questions = await wait_for_questions(services, number, 2)
        push, asked = sorted(questions, key=lambda one: one.kind, reverse=True)
        await approvals.answer(
            number, push.id, allowed=False, session=False, note="not on Fridays", by="key:laptop"
        )
        await approvals.answer(
            number, asked.id, allowed=True, session=True, note="blue", by="user:anna"
        )
        await services.chats.wait_until_idle(number, 60)
        await dispatcher.stop(0)
    async with running_services(layout) as services:
        told = [one for one in await services.history(number) if one.decision]
        assert [(one.role, one.tool, one.text) for one in told] == [
            ("tool", "decision", "Denied by the API key laptop.\n\nnot on Fridays"),
            (
                "tool",
                "decision",
                "Answered by anna.\n\nblue",
            ),
        ]
        assert [one.decision for one in told] == [
            ApprovalDecision("denied", "key:laptop", "not on Fridays", push.id),
            ApprovalDecision("allowed", "user:anna", "blue", asked.id),
        ]


async def test_what_is_denied_for_a_chat_is_denied_there_without_asking(layout):
    engine = AskingEngine(PUSH)
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, engine)
        (asked,) = await wait_for_questions(services, number)
        await approvals.answer(
            number, asked.id, allowed=False, session=True, note="never", by="user:anna"
        )
        await services.chats.wait_until_idle(number, 60)
        await services.chats.append_prompt(number, "go on", "", ME)
        await services.chats.wait_until_idle(number, 60)
        assert engine.answers[1:] == [ApprovalAnswer(False, reason=f"{DENIED_FOR_CHAT} never")]
        told = [one for one in await services.history(number) if one.decision][-1]
        assert told.text == f"Denied by anna.\n\n{DENIED_FOR_CHAT} never\n\nshell: git push"
        assert told.decision == ApprovalDecision("denied", "user:anna", f"{DENIED_FOR_CHAT} never")
        await dispatcher.stop(0)


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_withdrawn_decision_for_a_chat_is_asked_about_again(layout, allowed):
    engine = AskingEngine(PUSH)
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, engine)
        (asked,) = await wait_for_questions(services, number)
        await approvals.answer(
            number, asked.id, allowed=allowed, session=True, note="", by="user:anna"
        )
        await services.chats.wait_until_idle(number, 60)
        (listed,) = approvals.list_standing((await services.chats.get(number)).agent)
        assert (listed.id, listed.state) == (asked.id, "allowed" if allowed else "denied")
        before = len(await services.history(number))
        withdrawn = await approvals.withdraw(number, asked.id, "user:bert")
        assert (withdrawn.state, withdrawn.answered_by) == ("withdrawn", "user:bert")
        assert list_updates(services)[-1] == (asked.id, "withdrawn")
        assert len(await services.history(number)) == before  # it still ends in the reply
        with pytest.raises(NotFound, match="No decision"):
            await approvals.withdraw(number, asked.id, "user:bert")
        await dispatcher.stop(0)
    async with running_services(layout) as services:  # as the disk has it
        dispatcher = build_dispatcher(services, engine)
        dispatcher.start(services.chats.list_summaries())
        await services.chats.append_prompt(number, "go on", "", ME)
        await wait_for_questions(services, number)
        await dispatcher.stop(0)


async def test_the_history_shows_what_is_withdrawn_while_a_turn_runs(layout):
    """The agent may have relied on it a moment ago."""
    pull = Question("shell", "shell", "git pull")
    engine = AskingEngine(PUSH, pull)
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, engine)
        first, second = await wait_for_questions(services, number, 2)
        await approvals.answer(number, first.id, allowed=True, session=True, note="", by=ME)
        with pytest.raises(NotFound, match="No decision"):  # it is not decided yet
            await approvals.withdraw(number, second.id, ME)
        await approvals.withdraw(number, first.id, "user:bert")
        told = [one for one in await services.history(number) if one.decision][-1]
        text = "Withdrawn by bert: it no longer holds for the whole chat."
        assert told.text == text
        assert told.decision == ApprovalDecision("withdrawn", "user:bert", "", first.id)
        await dispatcher.stop(0)


async def test_withdrawing_a_decision_withdraws_an_older_one_about_the_same_question(layout):
    """A rule had it asked again, and the answer was another: neither is to come back alone."""
    engine = AskingEngine(PUSH)
    policy = ApprovalPolicy("ask", (ApprovalRule("ask", subject="git push"),))
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, engine, policy=policy)
        for allowed in (True, False):
            (asked,) = await wait_for_questions(services, number)
            await approvals.answer(number, asked.id, allowed=allowed, session=True, note="", by=ME)
            await services.chats.wait_until_idle(number, 60)
            if allowed:
                await services.chats.append_prompt(number, "go on", "", ME)
        agent = (await services.chats.get(number)).agent
        assert [one.id for one in approvals.list_standing(agent)] == [asked.id]
        await approvals.withdraw(number, asked.id, ME)
        assert (await services.chats.get(number)).agent.standing == ()
        await dispatcher.stop(0)


async def test_what_is_allowed_for_a_chat_is_asked_about_in_another_workspace(layout):
    """The chat goes on there, where the same command may run another program."""
    engine = AskingEngine(Question("shell", "shell", "./lint.sh"))
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, engine, workspace="/ours")
        (asked,) = await wait_for_questions(services, number)
        await approvals.answer(number, asked.id, allowed=True, session=True, note="", by=ME)
        await services.chats.wait_until_idle(number, 60)
        await dispatcher.stop(0)
    for workspace, many in (("/ours", 0), ("/theirs", 1)):
        async with running_services(layout) as services:
            dispatcher = build_dispatcher(services, engine, workspace=workspace)
            dispatcher.start(services.chats.list_summaries())
            answered = len(engine.answers)
            await services.chats.append_prompt(number, "go on", "", ME)
            await until(
                lambda services=services, answered=answered: (
                    services.chats.get_summary(number).asking or len(engine.answers) > answered
                )
            )
            assert services.chats.get_summary(number).asking == many
            await dispatcher.stop(0)


@pytest.mark.parametrize("note", ["", "  "])
@pytest.mark.parametrize("choices", [(), ("red", "blue")])
async def test_what_asks_for_words_is_not_answered_without_any(layout, note, choices):
    engine = AskingEngine(Question("question", "ask_person", "Which?", choices=choices))
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, engine)
        (asked,) = await wait_for_questions(services, number)
        answer = partial(approvals.answer, number, asked.id, session=False, by=ME)
        with pytest.raises(BadRequest, match="asks for words"):
            await answer(allowed=True, note=note)
        assert (await services.chats.get(number)).agent.asked == (asked,)  # it is still open
        assert (await answer(allowed=True, note="blue")).note == "blue"
        await dispatcher.stop(0)


async def test_what_asks_for_a_yes_gets_it_by_being_allowed(layout):
    engine = AskingEngine(Question("question", "mcp", "Sure?", choices=("Yes", "No")))
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, engine)
        (asked,) = await wait_for_questions(services, number)
        decided = await approvals.answer(
            number, asked.id, allowed=True, session=False, note="", by=ME
        )
        assert decided.state == "allowed"
        await dispatcher.stop(0)


async def test_the_history_shows_that_nobody_answered_or_that_a_stop_withdrew_the_question(layout):
    async with running_services(layout) as services:
        dispatcher, _, number = await start(
            services, AskingEngine(PUSH), policy=ApprovalPolicy(seconds=0.05)
        )
        await services.chats.wait_until_idle(number, 60)
        (told,) = [one for one in await services.history(number) if one.decision]
        assert told.text == "Denied: nobody answered in time."
        assert told.decision and (told.decision.by, told.decision.note) == ("deadline", "")
        await dispatcher.stop(0)
    async with running_services(layout) as services:
        dispatcher, _, number = await start(services, AskingEngine(PUSH))
        await wait_for_questions(services, number)
        await dispatcher.stop_turn(number, ME)
        await dispatcher.stop(0)
        shown = [(one.tool, one.text) for one in await services.history(number)][2:]
        withdrawn = ("decision", "Withdrawn: no answer is needed any more.")
        assert shown in ([("stop", STOPPED)], [withdrawn, ("stop", STOPPED)])


async def test_a_rule_is_stored_before_the_answer_and_without_it_the_question_stays_open(layout):
    engine, stored = AskingEngine(PUSH), list[tuple[ApprovalRule, Question, int]]()
    full = True

    async def store(rule: ApprovalRule, question: Question) -> None:
        if full:
            raise Unavailable("The disk is full")
        stored.append((rule, question, services.chats.get_summary(number).asking))

    rule = ApprovalRule("allow", kind="shell", subject="git push*")
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, engine, store_rule=store)
        (asked,) = await wait_for_questions(services, number)

        async def answer() -> Approval:
            return await approvals.answer(
                number, asked.id, allowed=True, session=False, note="", by=ME, rule=rule
            )

        with pytest.raises(Unavailable):
            await answer()
        assert await wait_for_questions(services, number) == [asked]
        full = False
        assert (await answer()).state == "allowed"
        with pytest.raises(NotFound):
            await answer()
        assert stored == [(rule, PUSH, 1)]
        await services.chats.wait_until_idle(number, 60)
        assert engine.answers[0].allowed
        await dispatcher.stop(0)


async def test_what_a_person_says_to_what_is_allowed_is_told_to_the_engine(layout):
    which = Question("question", "ask_person", "Which?", choices=("red", "blue"))
    engine = AskingEngine(which)
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, engine)
        (question,) = await wait_for_questions(services, number)
        assert question.choices == ("red", "blue")
        await approvals.answer(number, question.id, allowed=True, session=False, note="blue", by=ME)
        await services.chats.wait_until_idle(number, 60)
        assert engine.answers == [
            ApprovalAnswer(True, False, "blue", "blue", by_person=True, by=ME)
        ]
        assert (await services.history(number))[1].text == "Which?"
        await dispatcher.stop(0)


async def test_a_question_is_answered_once_however_many_try(layout):
    engine = AskingEngine(PUSH)
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, engine)
        (question,) = await wait_for_questions(services, number)

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
        assert len(list_updates(services)) == 2
        await services.chats.wait_until_idle(number, 60)
        assert not await answer(True)
        await dispatcher.stop(0)


async def test_when_nobody_answers_in_time_it_is_denied_and_the_turn_goes_on(layout):
    engine = AskingEngine(PUSH)
    async with running_services(layout) as services:
        dispatcher, _, number = await start(services, engine, policy=ApprovalPolicy(seconds=0.05))
        assert (await services.chats.wait_until_idle(number, 60)).outcome == "completed"
        assert engine.answers == [ApprovalAnswer(False, reason=BY_NOBODY)]
        assert [state for _, state in list_updates(services)] == ["open", "expired"]
        await dispatcher.stop(0)


async def test_what_a_rule_decides_is_asked_of_nobody(layout):
    policy = ApprovalPolicy(
        "deny",
        (ApprovalRule("allow", kind="shell", subject="git *"), ApprovalRule("deny", kind="read")),
    )
    engine = AskingEngine(PUSH, Question("outside", "write_file", "/x"), Question("read", "r", "x"))
    async with running_services(layout) as services:
        dispatcher, _, number = await start(services, engine, policy=policy)
        await services.chats.wait_until_idle(number, 60)
        ruled = f"{BY_SETTINGS} The rule is: kind: read."
        unruled = f"{BY_SETTINGS} What no rule allows is denied without asking."
        assert [(one.allowed, one.reason) for one in engine.answers] == [
            (True, ""),
            (False, unruled),
            (False, ruled),
        ]
        assert list_updates(services) == []
        told = [one for one in await services.history(number) if one.decision]
        assert {(one.decision, one.text.rpartition("\n\n")[2]) for one in told} == {
            (ApprovalDecision("denied", "rule", unruled), "write_file: /x"),
            (ApprovalDecision("denied", "rule", ruled), "r: x"),
        }
        await dispatcher.stop(0)


async def test_leave_for_the_session_holds_for_the_chat_over_restarts_and_for_no_other(layout):
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, AskingEngine(PUSH))
        (question,) = await wait_for_questions(services, number)
        await approvals.answer(number, question.id, allowed=True, session=True, note="", by=ME)
        await services.chats.wait_until_idle(number, 60)
        await dispatcher.stop(0)
    engine = AskingEngine(PUSH)
    async with running_services(layout) as services:
        dispatcher, _, other = await start(services, engine)
        await wait_for_questions(services, other)
        await services.chats.append_prompt(number, "again", "", ME)
        await services.chats.wait_until_idle(number, 60)
        assert engine.answers == [ApprovalAnswer(True)]
        await dispatcher.stop(0)


async def test_the_open_questions_of_a_turn_that_is_stopped_are_withdrawn(layout):
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, AskingEngine(PUSH, PUSH))
        first, second = await wait_for_questions(services, number, 2)
        assert await dispatcher.stop_turn(number, ME)
        assert services.chats.get_summary(number).asking == 0
        await dispatcher.stop(0)
        assert sorted(list_updates(services)[2:]) == [
            (first.id, "withdrawn"),
            (second.id, "withdrawn"),
        ]
        with pytest.raises(NotFound):
            await approvals.answer(number, first.id, allowed=True, session=False, note="", by=ME)


async def test_what_cannot_be_shown_whole_is_refused_and_nobody_is_asked(layout):
    shown = Question("shell", "shell", "x" * MAX_QUESTION_LENGTH)
    hidden = Question("shell", "shell", "true " + "x" * MAX_QUESTION_LENGTH + "; rm -rf .")
    engine = AskingEngine(hidden)
    async with running_services(layout) as services:
        dispatcher, _, number = await start(services, engine)
        await services.chats.wait_until_idle(number, 60)
        assert engine.answers == [ApprovalAnswer(False, reason=TOO_LONG)]
        engine.questions = (shown,)
        await services.chats.append_prompt(number, "again", "", ME)
        (question,) = await wait_for_questions(services, number)
        assert question.subject == shown.subject
        assert shown.subject in (await services.chats.get(number)).recent[-1].text
        await dispatcher.stop(0)


async def test_a_place_that_a_command_names_is_reported_with_the_question(layout):
    why = "Files of this name hold passwords and keys."
    engine = AskingEngine(Question("shell", "shell", "cat .env", "to look"))
    async with running_services(layout) as services:
        dispatcher, _, number = await start(
            services, engine, policy=ApprovalPolicy("auto"), named_in=lambda *_: why
        )
        (question,) = await wait_for_questions(services, number)
        assert question.reason == f"{why}\nto look"
        await dispatcher.stop(0)


@pytest.fixture
def slow_disk(monkeypatch):
    """Answers to questions wait, before they are safe on disk, until they may be."""
    real = TurnRecorder.close_approval
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def answer(*arguments):
        await real(*arguments)
        begun.set()
        await may_end.wait()

    monkeypatch.setattr(TurnRecorder, "close_approval", answer)
    return begun, may_end


async def test_a_question_that_is_answered_while_its_turn_is_stopped_has_one_answer(
    layout, slow_disk
):
    begun, may_end = slow_disk
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, AskingEngine(PUSH))
        (question,) = await wait_for_questions(services, number)
        answering = asyncio.create_task(
            approvals.answer(number, question.id, allowed=True, session=False, note="", by=ME)
        )
        await begun.wait()
        assert await dispatcher.stop_turn(number, ME)
        may_end.set()
        assert (await answering).state == "allowed"
        await dispatcher.stop(0)
        assert list_updates(services) == [(question.id, "open"), (question.id, "allowed")]


async def test_an_answer_reaches_the_engine_though_who_gave_it_left(layout, slow_disk):
    """A bot whose settings change does this."""
    begun, may_end = slow_disk
    engine = AskingEngine(PUSH)
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, engine)
        (question,) = await wait_for_questions(services, number)
        answering = asyncio.create_task(
            approvals.answer(number, question.id, allowed=True, session=False, note="", by=ME)
        )
        await begun.wait()
        answering.cancel()
        await asyncio.wait([answering])
        may_end.set()
        await until(lambda: engine.answers == [ApprovalAnswer(True, by_person=True, by=ME)])
        assert (await services.chats.wait_until_idle(number, 60)).outcome == "completed"
        assert list_updates(services) == [(question.id, "open"), (question.id, "allowed")]
        await dispatcher.stop(0)


async def test_a_crash_leaves_no_question_open(layout):
    async with running_services(layout, crash=True) as services:
        dispatcher, _, number = await start(services, AskingEngine(PUSH))
        await wait_for_questions(services, number)
        real, services.files.append = services.files.append, _fail_unavailable
        await dispatcher.stop(0)
        services.files.append = real
    async with running_services(layout) as services:
        assert services.chats.get_summary(number).asking == 1
        asked = (await services.chats.get(number)).agent.asked[0].id
        await services.turns.end_interrupted()
        assert services.chats.get_summary(number).asking == 0
        assert list_updates(services) == [(asked, "withdrawn")]


def _fail_unavailable(*_: object) -> None:
    raise Unavailable("dead")


async def test_a_spent_budget_holds_the_queue_and_asks_and_an_answer_lets_it_go_on(layout):
    """A budget pauses and asks; it does not kill."""
    budget = SpendBudget(per_chat=Decimal(2))
    async with running_services(layout) as services:
        dispatcher, approvals, number = await start(services, AskingEngine(), budget=budget)
        for text in "abcd":
            await services.chats.append_prompt(number, text, "", ME)
        (question,) = await wait_for_questions(services, number)
        summary = services.chats.get_summary(number)
        assert (summary.cost, summary.waiting, summary.status) == (Decimal(2), 3, "queued")
        assert "its budget is 2 USD" in summary.held
        assert question.kind == "budget"
        await approvals.answer(number, question.id, allowed=False, session=False, note="", by=ME)
        assert services.chats.get_summary(number).held
        await services.chats.release_queue(
            number, ME
        )  # by hand, without an allowance: it asks again
        (question,) = await wait_for_questions(services, number)
        await approvals.answer(number, question.id, allowed=True, session=False, note="", by=ME)
        (question,) = await wait_for_questions(services, number)  # as much again is spent
        assert services.chats.get_summary(number).cost == Decimal(4)
        assert services.chats.get_summary(number).waiting == 1
        await dispatcher.stop(0)


async def test_of_two_answers_to_a_budget_question_at_once_only_the_first_counts(layout):
    async with running_services(layout) as services:
        budget = SpendBudget(per_chat=Decimal(0))
        dispatcher, approvals, number = await start(services, AskingEngine(), budget=budget)
        (question,) = await wait_for_questions(services, number)
        outcomes = await asyncio.gather(
            *(
                approvals.answer(
                    number, question.id, allowed=allowed, session=False, note="", by=ME
                )
                for allowed in (False, True)
            ),
            return_exceptions=True,
        )
        assert [type(one) for one in outcomes] == [Approval, NotFound]
        assert "budget" in services.chats.get_summary(number).held
        told = [one.decision for one in await services.history(number) if one.decision]
        assert [one.state for one in told] == ["denied"]
        await dispatcher.stop(0)


async def test_the_budget_of_a_day_holds_every_chat_until_the_day_is_over(layout):
    async with running_services(layout) as services:
        dispatcher, _, first = await start(
            services, AskingEngine(), budget=SpendBudget(per_day=Decimal(1))
        )
        await services.chats.wait_until_idle(first, 60)
        second = (await services.chats.create(NewChat(prompt="x"), ME)).id
        await wait_for_questions(services, second)
        assert "today" in services.chats.get_summary(second).held
        services.clock.move(86400)
        third = (await services.chats.create(NewChat(prompt="y"), ME)).id
        assert (await services.chats.wait_until_idle(third, 60)).outcome == "completed"
        await dispatcher.stop(0)


async def test_what_was_spent_while_the_clock_was_ahead_counts_for_today(layout):
    async with running_services(layout) as services:
        services.clock.jump(2 * 86400)
        dispatcher, _, first = await start(
            services, AskingEngine(), budget=SpendBudget(per_day=Decimal(1))
        )
        await services.chats.wait_until_idle(first, 60)
        services.clock.jump(-2 * 86400)
        await services.chats.append_prompt(first, "once more", "", ME)
        await wait_for_questions(services, first)
        assert "today" in services.chats.get_summary(first).held
        await dispatcher.stop(0)


async def test_a_chat_that_waits_for_a_person_keeps_no_other_from_work(layout):
    """Each waiting turn leaves its place until it is answered."""
    engine = AskingEngine(PUSH)
    async with running_services(layout) as services:
        dispatcher, approvals, first = await start(services, engine, parallel=1)
        (question,) = await wait_for_questions(services, first)
        engine.questions = ()
        second = (await services.chats.create(NewChat(prompt="no question"), ME)).id
        assert (await services.chats.wait_until_idle(second, 60)).outcome == "completed"
        assert services.chats.get_summary(first).status == "processing"
        await approvals.answer(first, question.id, allowed=True, session=False, note="", by=ME)
        assert (await services.chats.wait_until_idle(first, 60)).outcome == "completed"
        third = (await services.chats.create(NewChat(prompt="and on"), ME)).id
        assert (await services.chats.wait_until_idle(third, 60)).outcome == "completed"
        await dispatcher.stop(0)


async def test_several_questions_of_a_turn_leave_its_place_once(layout):
    engine = AskingEngine(PUSH, Question("network", "fetch", "https://a.example"))
    async with running_services(layout) as services:
        dispatcher, approvals, first = await start(services, engine, parallel=1)
        questions = await wait_for_questions(services, first, 2)
        for question in questions:
            await approvals.answer(first, question.id, allowed=True, session=False, note="", by=ME)
        assert (await services.chats.wait_until_idle(first, 60)).outcome == "completed"
        engine.questions = ()
        second = (await services.chats.create(NewChat(prompt="and on"), ME)).id
        assert (await services.chats.wait_until_idle(second, 60)).outcome == "completed"
        await dispatcher.stop(0)


async def test_a_lifted_budget_lets_the_queues_go_on_that_it_held(layout):
    money = SpendBudget(per_day=Decimal(1))
    async with running_services(layout) as services:
        dispatcher, _, first = await start(services, AskingEngine(), budget=lambda: money)
        await services.chats.wait_until_idle(first, 60)
        second = (await services.chats.create(NewChat(prompt="x"), ME)).id
        await wait_for_questions(services, second)
        dispatcher.on_settings_changed()
        money = SpendBudget(per_day=Decimal(100))
        dispatcher.on_settings_changed()
        await until(lambda: services.chats.get_summary(second).outcome == "completed")
        assert services.chats.get_summary(second).asking == 0
        await dispatcher.stop(0)


async def test_a_budget_lifted_just_while_a_queue_is_held_lets_it_go_on(layout, monkeypatch):
    monkeypatch.setattr(service, "LONGEST_SLEEP", 3600.0)
    money = SpendBudget(per_day=Decimal(1))
    async with running_services(layout) as services:
        dispatcher, _, first = await start(services, AskingEngine(), budget=lambda: money)
        await services.chats.wait_until_idle(first, 60)

        def lift(event: Event) -> None:
            nonlocal money
            if isinstance(event, ChatStateEvent) and event.chat.asking and money.per_day == 1:
                money = SpendBudget(per_day=Decimal(100))
                dispatcher.on_settings_changed()

        services.bus.subscribe(lift)
        second = (await services.chats.create(NewChat(prompt="x"), ME)).id
        await until(lambda: services.chats.get_summary(second).outcome == "completed", 10)
        await dispatcher.stop(0)


async def test_on_another_day_the_queues_go_on_that_the_budget_of_a_day_held(layout, monkeypatch):
    monkeypatch.setattr(service, "LONGEST_SLEEP", 0.01)
    async with running_services(layout) as services:
        dispatcher, _, first = await start(
            services, AskingEngine(), budget=SpendBudget(per_day=Decimal(1))
        )
        await services.chats.wait_until_idle(first, 60)
        second = (await services.chats.create(NewChat(prompt="x"), ME)).id
        await wait_for_questions(services, second)
        services.clock.move(86400)
        await until(lambda: services.chats.get_summary(second).outcome == "completed")
        await dispatcher.stop(0)


async def test_a_queue_that_a_person_stopped_stays_held_when_a_budget_is_lifted(layout):
    async with running_services(layout) as services:
        dispatcher, _, first = await start(
            services, AskingEngine(PUSH), budget=SpendBudget(per_day=Decimal(9))
        )
        await wait_for_questions(services, first)
        await services.chats.append_prompt(first, "next", "", ME)
        await dispatcher.stop_turn(first, ME)
        assert not await dispatcher._planner.release_within_budget(first)
        assert services.chats.get_summary(first).held
        await dispatcher.stop(0)
