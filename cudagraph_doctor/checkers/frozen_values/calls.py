"""What the called names of a program mean for a value that is handed to them."""

from __future__ import annotations

import ast

from cudagraph_doctor.checkers.code.expression import called, dotted

PURE = frozenset(
    {
        *("int", "float", "bool", "str", "repr", "len", "min", "max", "abs", "round", "sum", "tuple", "list", "sorted"),
        *("divmod", "pow", "format", "set", "dict", "frozenset", "reversed", "enumerate", "zip", "ceil", "floor"),
        *("sqrt", "log2", "exp", "isinstance", "hash", "slice", "Size", "item", "tolist", "get", "lower", "upper"),
        *("cdiv", "next_power_of_2", "prod", "log"),
    }
)
"""Calls that only make another value of the host from theirs."""

TELLS = frozenset(
    {
        *("print", "debug", "info", "warning", "warn", "error", "exception", "critical", "write", "inc", "observe"),
        *("record_function", "range_push", "range_pop", "range", "annotate", "mark", "set_description", "update_stats"),
        *("add_scalar", "log_metrics", "set_postfix", "set_attribute", "start_as_current_span", "manual_seed", "sleep"),
    }
)
"""Calls that tell somebody something, name a range in a profile, or only keep the host's time."""

_SIZES = frozenset(
    {
        *("view", "reshape", "expand", "zeros", "ones", "empty", "arange", "narrow", "repeat", "split", "chunk"),
        *("new_zeros", "new_ones", "new_empty", "unflatten", "tile", "linspace", "randn", "rand", "eye", "topk", "pad"),
        *(
            "repeat_interleave",
            "interpolate",
            "one_hot",
            "unfold",
            "resize_",
            "as_strided",
            "split_with_sizes",
            "randint",
        ),
        *("broadcast_to", "tensor_split", "unbind", "causal_mask", "bincount", "expand_as"),
    }
)
"""Functions of torch whose numbers are sizes."""
_SIZE_OPERATORS = frozenset({"slice", "_unsafe_view", "constant_pad_nd", "select_scatter", "slice_scatter"}) | _SIZES


def is_profiler_range(node: ast.Call) -> bool:
    """`torch.cuda.nvtx.range("step")`, which has the name of a loop's `range`."""
    return called(node) == "range" and isinstance(node.func, ast.Attribute)


def is_loop_range(node: ast.AST) -> bool:
    """`range(n)` itself."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def tells(node: ast.Call) -> bool:
    """Whether a call only tells somebody something."""
    if is_loop_range(node):
        return False
    name = called(node)
    return name in TELLS or (
        name == "log" and dotted(node.func).partition(".")[0] not in {"math", "np", "numpy", "torch"}
    )


def is_size(node: ast.Call, argument: ast.expr) -> bool:
    """Whether this argument of a call is a size: of a tensor, or of a piece of one."""
    name = called(node)
    if name in {"full", "new_full"}:
        return bool(node.args) and argument is node.args[0]
    if name in {"pad", "topk", "narrow", "one_hot", "repeat_interleave", "unfold", "split", "chunk"}:
        return True
    return name in _SIZES


def sizes(operator: str) -> bool:
    """Whether the numbers of a torch operator (`aten::slice`) are sizes and bounds."""
    return operator.rpartition("::")[2].partition(".")[0] in _SIZE_OPERATORS
