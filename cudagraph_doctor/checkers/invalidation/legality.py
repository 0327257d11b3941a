"""In which capture modes another thread's call would have broken the capture: a measured table."""

from __future__ import annotations

import re
from functools import cache

from cudagraph_doctor.checkers.invalidation.calls import UNSAFE, family_of, is_device_wide
from cudagraph_doctor.session.apis import Family, base_name


def breaks_under(
    mode: str, api: str, *, on_capturing_stream: bool = False, captured_event: bool = False
) -> bool | None:
    """Whether a call on another thread breaks a capture begun in a mode; None where it was not measured.

    Args:
        mode: `global`, `thread_local` or `relaxed`.
        api: Name of the call, as any layer spells it.
        on_capturing_stream: It is made on the capturing stream.
        captured_event: It concerns an event last recorded in the capture.
    """
    modes = _table().get(_key(api, on_capturing_stream, captured_event))
    if modes is None and is_device_wide(api):
        return True
    if modes is None and family_of(api) in UNSAFE:
        return mode == "global"  # every unsafe call that was measured behaves like this
    if modes is None and family_of(api) is Family.SYNC and not on_capturing_stream:
        return mode == "global"
    return None if modes is None else mode in modes


def _key(api: str, on_capturing_stream: bool, captured_event: bool) -> str:
    name = re.sub(r"^(?:cuda|cu)(?=[A-Z])", "", base_name(api))
    for suffix, holds in (("captured-event", captured_event), ("capturing", on_capturing_stream)):
        if holds and f"{name}:{suffix}" in _table():
            return f"{name}:{suffix}"
    return name


@cache
def _table() -> dict[str, tuple[str, ...]]:
    import json
    from importlib.resources import files

    text = files(__package__).joinpath("legality.json").read_text(encoding="utf-8")
    return {name: tuple(modes) for name, modes in json.loads(text)["refused_from_other_threads"].items()}
