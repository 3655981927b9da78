"""Pairs of a start and an end."""


def merge(intervals):
    """Sorted, with those that overlap or touch joined."""
    merged = []
    for start, end in sorted(intervals):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def covered(intervals):
    """The length of their union."""
    return sum(end - start for start, end in intervals)
