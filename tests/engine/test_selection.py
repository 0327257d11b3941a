from importlib.metadata import EntryPoint

import pytest

from cudagraph_doctor.api import Checker, Rule, Severity
from cudagraph_doctor.engine.registry import LoadedChecker, Plugin
from cudagraph_doctor.engine.selection import resolve
from cudagraph_doctor.errors import UsageError


def checker(name, *codes):
    made = type(
        name,
        (Checker,),
        {
            "name": name,
            "rules": tuple(
                Rule(id=c, slug=f"slug-{c.lower()}", level=Severity.ERROR, what="w", text="t") for c in codes
            ),
            "check": lambda self, session: (),
        },
    )
    return LoadedChecker(made(), Plugin(EntryPoint(name, "x:y", ""), "package", "1"))


LOADED = [
    checker("capture_status", "CGD101", "CGD102", "CGD113"),
    checker("pointer_lifetime", "CGD401"),
    checker("mine", "XY7"),
]
ALL = {"CGD101", "CGD102", "CGD113", "CGD401", "XY7"}


@pytest.mark.parametrize(
    ("select", "ignore", "rules"),
    [
        ((), (), ALL),
        (("CGD101",), (), {"CGD101"}),
        (("cgd101", "XY7"), (), {"CGD101", "XY7"}),
        (("CGD1",), (), {"CGD101", "CGD102", "CGD113"}),
        (("CGD10",), ("CGD102",), {"CGD101"}),
        (("pointer_lifetime",), (), {"CGD401"}),
        (("slug-xy7",), (), {"XY7"}),
        ((), ("capture_status",), {"CGD401", "XY7"}),
        (("CGD101",), ("CGD",), set()),
    ],
)
def test_select_and_ignore(select, ignore, rules):
    assert resolve(LOADED, select, ignore).rules == rules


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("CGD110", "CGD101"),
        ("capture_statu", "capture_status"),
        ("pointer-lifetime", "pointer_lifetime"),
        ("slug-cgd401x", "slug-cgd401"),
        ("zzzzqqqq", "`cudagraph-doctor rules`"),
        ("", "`cudagraph-doctor rules`"),
    ],
)
@pytest.mark.parametrize("option", ["select", "ignore"])
def test_an_unknown_name_is_a_usage_error_that_names_the_nearest(name, near, option):
    with pytest.raises(UsageError, match="no such rule or checker") as caught:
        resolve(LOADED, **{option: (name,)})
    assert near in caught.value.hint
