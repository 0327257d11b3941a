"""Which instructions read or write slots, and how they are called."""

from __future__ import annotations

from types import CodeType, FunctionType

import pytest

from cudagraph_doctor.probe.region.bytecode import table_of
from cudagraph_doctor.probe.region.evaluation import text_of
from cudagraph_doctor.probe.region.expression import Use

SOURCE = """
class Engine:
    def step(self, x, i, options):
        y = self.layers[3].scale * x + BIAS
        y = y + self.rows[i % 4] + options.get("penalty") + getattr(self, "gain")
        self.count += 1
        self.seen["last"] = y
        if self.waiting:
            self.waiting.append(len(self.batch["mask"]))
        for row in self.table:
            y = y + row
        return y

def outer():
    position = 0
    def inner():
        nonlocal position
        position = position + 1
        return position
    return inner
"""


@pytest.fixture(scope="module")
def codes() -> dict[str, CodeType]:
    names: dict[str, object] = {}
    exec(compile(SOURCE, "made.py", "exec"), names)
    engine, outer = names["Engine"], names["outer"]
    assert isinstance(outer, FunctionType)
    step = vars(engine)["step"]
    return {"step": step.__code__, "outer": outer.__code__, "inner": outer().__code__}


def _accesses(code: CodeType, *, writes: bool) -> set[str]:
    accesses = table_of(code).accesses.values()
    return {text_of(one.expression) for one in accesses if one.writes is writes and not one.local}


def test_chains_are_read_whole(codes: dict[str, CodeType]) -> None:
    read = _accesses(codes["step"], writes=False)
    assert {
        "self.layers[3].scale",
        "BIAS",
        'options["penalty"]',
        "self.gain",
        "self.count",
        'self.batch["mask"]',
    } <= read
    assert not {"self.layers", "self.layers[3]", "self.batch"} & read  # on the way: seen with the whole chain


def test_stores_are_writes(codes: dict[str, CodeType]) -> None:
    assert _accesses(codes["step"], writes=True) == {"self.count", 'self.seen["last"]'}


def test_what_is_done_with_containers(codes: dict[str, CodeType]) -> None:
    uses: dict[str, set[Use]] = {}
    for access in table_of(codes["step"]).accesses.values():
        expression = access.expression
        for one in (expression, expression.base):
            if one is not None:
                uses.setdefault(text_of(one), set()).update(one.uses)
    assert Use.CHANGED in uses["self.waiting"]
    assert Use.LENGTH in uses["self.waiting"]
    assert Use.LENGTH in uses['self.batch["mask"]']
    assert Use.ELEMENTS in uses["self.table"]
    assert not uses["self.count"]


def test_shared_variables_belong_to_the_function_outside(codes: dict[str, CodeType]) -> None:
    assert _accesses(codes["inner"], writes=True) == {"position"}
    assert _accesses(codes["outer"], writes=True) == set()
    assert not table_of(codes["outer"]).plain  # only locals of its own: of interest where its frame is alive


def test_a_table_is_made_once(codes: dict[str, CodeType]) -> None:
    assert table_of(codes["step"]) is table_of(codes["step"])
