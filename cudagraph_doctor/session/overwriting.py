"""Operators that write in place without reading what was there, or no values at all."""

from __future__ import annotations

_OVERWRITES = frozenset(
    {
        *("copy_", "fill_", "zero_", "set_", "resize_", "normal_", "uniform_", "random_", "exponential_", "bernoulli_"),
        *("log_normal_", "cauchy_", "geometric_", "scatter_", "index_copy_", "index_put_", "index_fill_"),
        *("masked_fill_", "masked_scatter_", "put_", "detach_", "requires_grad_", "eye_", "record_stream_"),
        *("_foreach_zero_", "_foreach_copy_", "_foreach_fill_"),
    }
)


def overwrites(name: str) -> bool:
    """Whether an operator, `aten::fill_`, leaves nothing of what it writes to."""
    return name.rpartition("::")[2].partition(".")[0] in _OVERWRITES
