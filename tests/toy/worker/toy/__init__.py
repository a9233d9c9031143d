"""A framework that is nothing but numpy: the smallest one, to show that a framework needs nothing but its folder."""

__all__ = ["stopped_by"]


def stopped_by(_error: BaseException) -> None:
    """Know no failure: what goes wrong is said as it is."""
