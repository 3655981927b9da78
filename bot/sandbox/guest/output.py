"""Output in bounded memory: the head and the tail of a stream. Also run inside sandboxes."""

from __future__ import annotations


class Output:
    """Keeps the head and the tail of what is added."""

    def __init__(self, *, head: int, tail: int) -> None:
        self._head_limit = head
        self._tail_limit = tail
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0
        """All bytes that came, kept or not."""

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if len(piece) > self._tail_limit:
            piece = piece[len(piece) - self._tail_limit :]
        self._tail += piece
        # Cut now and then rather than at every piece, so that many small pieces cost no more than few large ones.
        if len(self._tail) > 2 * self._tail_limit + 65536:
            del self._tail[: len(self._tail) - self._tail_limit]

    def clear(self) -> None:
        self._head.clear()
        self._tail.clear()
        self.size = 0

    @property
    def left_out(self) -> int:
        return max(0, self.size - self._head_limit - self._tail_limit)

    def bytes(self) -> bytes:
        """What was kept, with a line in the middle for what was not."""
        if not self.left_out:
            return bytes(self._head + self._tail)
        tail = self._tail[len(self._tail) - self._tail_limit :]
        return bytes(self._head) + f"\n[... {self.left_out} bytes left out ...]\n".encode() + bytes(tail)
