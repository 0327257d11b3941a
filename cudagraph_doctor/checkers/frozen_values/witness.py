"""Whether a recorded operator argument, size or grid is the value that a slot held: then it stands in the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.session.slots import UNKNOWN, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cudagraph_doctor.session.model import Activity


def stands_in(work: Iterable[Activity], value: object) -> Activity | None:
    """The first activity one of whose recorded numbers, texts, sizes or grid dimensions is the value."""
    if value is UNKNOWN or value is None:
        return None
    wanted = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not wanted or not all(isinstance(part, (int, float, str)) for part in wanted):
        return None
    for activity in work:
        if any(_same(told, wanted) for told in _told(activity)):
            return activity
    return None


def _told(activity: Activity) -> Iterator[tuple[object, ...]]:
    record = activity.record
    for _, text in getattr(record, "values", ()):
        value = plain(text)
        if value is UNKNOWN:
            yield (text,)
        elif isinstance(value, list):
            yield tuple(value)
            yield from ((part,) for part in value)
        else:
            yield (value,)
    outcome = activity.outcome
    for tensor in (*getattr(record, "tensors", ()), *(outcome.tensors if outcome is not None else ())):
        yield tuple(tensor.shape)
        yield from ((size,) for size in tensor.shape)
    for size in getattr(record, "grid", None) or ():
        yield (size,)


def _same(told: tuple[object, ...], wanted: tuple[object, ...]) -> bool:
    if len(told) != len(wanted):
        return False
    return all(
        type(one) is type(other) and one == other
        if isinstance(one, (bool, str)) or isinstance(other, (bool, str))
        else one == other
        for one, other in zip(told, wanted, strict=True)
    )
