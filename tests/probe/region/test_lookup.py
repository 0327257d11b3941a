"""Attributes and elements are read without running code of the target."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cudagraph_doctor.probe.region.lookup import MISSING, OPAQUE, Lookup, item


class Loud:
    """Fails when any code of its own runs."""

    shared = 2

    def __init__(self) -> None:
        self.own = 1

    @property
    def computed(self) -> int:
        raise AssertionError("a property ran")

    def method(self) -> None:
        """A method is not state."""

    def __getattr__(self, name: str) -> int:
        raise AssertionError(f"__getattr__({name!r}) ran")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("__eq__ ran")

    def __hash__(self) -> int:
        raise AssertionError("__hash__ ran")


class Louder(Loud):
    def __getattribute__(self, name: str) -> object:
        raise AssertionError(f"__getattribute__({name!r}) ran")


class Slotted:
    __slots__ = ("empty", "full")

    def __init__(self) -> None:
        self.full = 3


@pytest.mark.parametrize(
    ("name", "value"),
    [("own", 1), ("shared", 2), ("absent", MISSING), ("computed", OPAQUE), ("method", OPAQUE)],
)
def test_attributes(name: str, value: object) -> None:
    assert Lookup().attribute(Loud(), name) is value


def test_attribute_behind_getattribute() -> None:
    quiet = object.__new__(Louder)
    object.__setattr__(quiet, "own", 5)
    assert Lookup().attribute(quiet, "own") == 5


def test_slots_and_namespaces() -> None:
    lookup = Lookup()
    assert lookup.attribute(Slotted(), "full") == 3
    assert lookup.attribute(Slotted(), "empty") is MISSING
    assert lookup.attribute(SimpleNamespace(a=4), "a") == 4


class LoudList(list[int]):
    def __getitem__(self, key: object) -> int:  # type: ignore[override]
        raise AssertionError("__getitem__ ran")


@pytest.mark.parametrize(
    ("container", "key", "value"),
    [
        ([1, 2], 1, 2),
        ([1, 2], 2, MISSING),
        ([1, 2], "x", OPAQUE),
        ({"a": 1}, "a", 1),
        ({"a": 1}, "b", MISSING),
        ({(1, "x"): 7}, (1, "x"), 7),
    ],
)
def test_elements(container: object, key: object, value: object) -> None:
    assert item(container, key) is value


def test_what_only_the_target_could_tell() -> None:
    assert item({"a": 1}, Loud()) is OPAQUE
    assert item(LoudList([1]), 0) is OPAQUE
