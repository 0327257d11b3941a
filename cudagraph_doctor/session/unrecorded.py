"""In words: what no recorder of this trace told, so that what depends on it is "not checked"."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Session

_WORDS = {
    "driver": "needs driver evidence",
    "outputs": "who holds a graph's outputs between replays is not watched",
    "touches": "work outside of captures is not watched",
    "handed": "what a replaying function is handed anew is not watched",
    "contents": "what tensors hold is not read",
    "slot-uses": "reads of what a region would have written are not watched",
}
"""By name of the capability, the strongest first. Each is false once a recorder says that it is on."""


def unrecorded(names: tuple[str, ...]) -> str:
    """Why none of these capabilities could be used, none of which said so itself."""
    words = next((said for name, said in _WORDS.items() if name in names), None)
    return words or "needs " + " or ".join(names)


def in_part(session: Session, needs: tuple[str, ...], looked_at: str) -> str | None:
    """The reason of a rule that can be decided in part only, None where all of it can.

    Args:
        session: the process.
        needs: names of capabilities, all of which the whole rule takes.
        looked_at: the part that is decided without them, as a plural: "slots that the region read".
    """
    missing = [_WORDS[name] for name in needs if not session.has(name)]
    return f"{', '.join(missing)}: only {looked_at} were looked at" if missing else None
