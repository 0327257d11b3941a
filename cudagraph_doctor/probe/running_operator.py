"""Tells the C probe which torch operator runs on this thread: two words of memory that both sides know.

The stack of the operator saves the probe asking for one at each of its launches.
"""

from __future__ import annotations

from _thread import get_native_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BYTES = 24
"""`struct operator_words` of native/probe.h: number and stack of the operator, and the thread that they belong to."""


def running_operator(words_of_this_thread: Callable[[], int | None]) -> Callable[[int, int], None]:
    """The function that a hook calls with number and stack of an operator when it begins, and of the outer one after.

    Args:
        words_of_this_thread: address of the calling thread's words, or None where the probe has no room for it.
    """
    import ctypes

    known: dict[int, memoryview] = {}

    def find(tid: int) -> memoryview | None:
        address = words_of_this_thread()
        if not address:
            return None
        words = memoryview((ctypes.c_char * BYTES).from_address(address)).cast("B").cast("q")
        known[tid] = words
        return words

    def tell(q: int, stack: int) -> None:
        tid = get_native_id()
        words = known.get(tid)
        if words is None or words[2] != tid:  # another thread's by now: ours was thought to be dead
            words = find(tid)
            if words is None:
                return
        words[0] = q
        words[1] = stack

    return tell
