"""A queue by priority."""

import heapq


class Queue:
    """What is equally urgent comes out in the order in which it was put in."""

    def __init__(self):
        self._heap = []

    def put(self, name, priority=0):
        heapq.heappush(self._heap, (-priority, name))

    def pop(self):
        return heapq.heappop(self._heap)[1]

    def __len__(self):
        return len(self._heap)

    def __str__(self):
        return f"{len(self)} items"
