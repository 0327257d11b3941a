"""The value of an expression of the user's, as far as constants and recorded values decide it. Nothing is run."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from cudagraph_doctor.session.slots import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "abs": abs,
    "min": min,
    "max": max,
    "round": round,
    "len": len,
}
_LARGEST = 10**9
"""Numbers above it are not calculated with: a hostile trace must not make us build large ones."""


def evaluate(node: ast.AST, known: Mapping[str, object]) -> object:
    """The value of an expression; `UNKNOWN` where anything in it is not known.

    Args:
        node: The expression.
        known: Values of names, attributes and items, by their text as `ast.unparse` writes it.
    """
    try:
        return _value(node, known)
    except Exception:  # whatever the user's expression would raise
        return UNKNOWN


def _value(node: ast.AST, known: Mapping[str, object]) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        return known.get(ast.unparse(node), UNKNOWN)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _apply(_UNARY[type(node.op)], _value(node.operand, known))
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _apply(_BINARY[type(node.op)], _value(node.left, known), _value(node.right, known))
    if isinstance(node, ast.Compare):
        return _compare(node, known)
    if isinstance(node, ast.BoolOp):
        return _junction(node, known)
    if isinstance(node, (ast.Tuple, ast.List)):
        items = [_value(item, known) for item in node.elts]
        return UNKNOWN if any(item is UNKNOWN for item in items) else tuple(items)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        made = _CALLS.get(node.func.id)
        return _apply(made, *(_value(a, known) for a in node.args)) if made is not None else UNKNOWN
    return UNKNOWN


def _apply(function: Callable[..., Any], *values: object) -> object:
    if any(value is UNKNOWN or (isinstance(value, (int, float)) and abs(value) > _LARGEST) for value in values):
        return UNKNOWN
    if any(isinstance(value, (str, tuple)) for value in values) and function is operator.mul:
        return UNKNOWN
    return function(*values)


def _compare(node: ast.Compare, known: Mapping[str, object]) -> object:
    left = _value(node.left, known)
    for kind, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, known)
        held = _apply(_COMPARE[type(kind)], left, right)
        if held is UNKNOWN or not held:
            return held
        left = right
    return True


def _junction(node: ast.BoolOp, known: Mapping[str, object]) -> object:
    """`and`, `or`: as Python does it, the first operand that decides."""
    value: object = UNKNOWN
    for part in node.values:
        value = _value(part, known)
        if value is UNKNOWN or bool(value) is isinstance(node.op, ast.Or):
            return value
    return value
