"""Arithmetic in descriptions and cards: names, numbers and ``+ - * / // ()``, parsed and never executed as Python."""

import ast
import operator
from collections.abc import Callable, Mapping

from trainmark.errors import InputError

_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.FloorDiv: operator.floordiv,
}
_LONGEST = 200


def parse_expression(text: str, where: str) -> ast.expr:
    """Return ``text`` parsed; raise ``InputError`` if it has more than names, numbers and ``+ - * /``."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body if len(text) <= _LONGEST else None
    except (SyntaxError, ValueError, RecursionError):
        tree = None
    if tree is None or not all(map(_is_allowed, ast.walk(tree))):
        raise InputError(f"{where}: '{text}' is not names, numbers and + - * / // ()")
    return tree


def names_in(tree: ast.expr) -> frozenset[str]:
    """Return the names that an expression needs."""
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def evaluate(tree: ast.expr, value_of: Callable[[str], float | None]) -> float | None:
    """Return the value; ``None`` if one of its names has none, or a divisor is 0."""
    if isinstance(tree, ast.Constant):
        return float(tree.value)  # type: ignore[arg-type]
    if isinstance(tree, ast.Name):
        return value_of(tree.id)
    if isinstance(tree, ast.BinOp):
        left, right = evaluate(tree.left, value_of), evaluate(tree.right, value_of)
        if left is None or right is None:
            return None
        try:
            return _OPERATORS[type(tree.op)](left, right)
        except (ZeroDivisionError, OverflowError):
            return None
    raise AssertionError(f"not allowed by parse_expression: {ast.dump(tree)}")


def _is_allowed(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.BinOp):
        return type(node.op) in _OPERATORS
    return isinstance(node, (ast.Name, ast.Load, *_OPERATORS))
