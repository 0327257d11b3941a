"""Every exit code alone, every pair, and every combination."""

from __future__ import annotations

import itertools

import pytest
from msgspec import structs

from cudagraph_doctor.engine.exit_code import PRECEDENCE, ExitCode, ExitFacts, decide

CODES = {
    "usage": 2,
    "not_started": 3,
    "time_limit": 6,
    "incomplete": 4,
    "findings": 1,
    "unexplained_end": 7,
    "nothing_captured": 5,
}
"""Each fact and its code, in the order in which they win, as docs/exit-codes.md has it."""


def test_nothing_to_say_is_zero():
    assert decide(ExitFacts()) == 0


@pytest.mark.parametrize(("fact", "code"), list(CODES.items()))
def test_each_fact_alone_has_its_code(fact, code):
    assert decide(ExitFacts(**{fact: True})) == code


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(CODES, 2)))
def test_the_earlier_of_two_wins(first, second):
    assert decide(ExitFacts(**{first: True, second: True})) == CODES[first]


def test_every_combination_is_decided_by_its_first():
    names = [field.name for field in structs.fields(ExitFacts)]
    assert set(names) == set(CODES)
    for values in itertools.product([False, True], repeat=len(names)):
        facts = dict(zip(names, values, strict=True))
        expected = next((code for fact, code in CODES.items() if facts[fact]), 0)
        assert decide(ExitFacts(**facts)) == expected


def test_every_code_has_a_place_and_a_meaning():
    assert set(PRECEDENCE) == set(ExitCode)
    assert sorted(ExitCode) == list(range(8))
    assert all(code.meaning for code in ExitCode)
