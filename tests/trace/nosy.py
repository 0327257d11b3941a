"""A checker that asks a session everything it can be asked, and finds each failed capture."""

from cudagraph_doctor.api import Checker, Confidence, Rule, Severity
from cudagraph_doctor.session import apis, memory

RULE = Rule(id="NOSY1", slug="nosy", level=Severity.ERROR, what="A capture failed.", text="text")


class Nosy(Checker):
    name = "nosy"
    rules = (RULE,)

    def check(self, session):
        for stack in [*session.stacks, 0, -1, 10**30]:
            session.location(stack), session.chain(stack), session.callers(stack)
        for tid in session.threads:
            session.thread_name(tid)
        session.why_not(("driver", "ops"))
        for capture in session.captures:
            for activity in capture.activities:
                assert activity.name
                apis.family(activity.name)
                session.level_at(activity.record.t)
                list(activity.enclosing()), activity.returned, activity.failed, memory.is_work(activity)
            window = memory.WindowMemory(capture)
            for activity in capture.activities:
                window.writer(memory.touches(activity)), window.reader(memory.touches(activity))
            if capture.status != "completed":
                cause = capture.change.across if capture.change else None
                yield RULE.finding(
                    f"{cause.name if cause else 'something'} broke it",
                    location=session.location(cause.stack if cause else capture.begin.stack),
                    remedy="do not",
                    confidence=Confidence.LIKELY,
                    process=session.index,
                    trigger=cause.name if cause else "",
                    evidence=(cause.q,) if cause else (),
                    capture=capture.id,
                )
