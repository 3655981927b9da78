"""Output in bounded memory: the head and the tail of a stream. Also run inside sandboxes."""

from __future__ import annotations

LONGEST = 4096
"""Bytes of a word that is left out as a whole; no secret on one line is longer."""


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
        """What was kept, with a line in the middle for what was not. A word that would be cut in two is left out as
        well, if it is not longer than a quarter of what is kept: half a secret would not be found."""
        if not self.left_out:
            return bytes(self._head + self._tail)
        head, tail = self._head, self._tail[len(self._tail) - self._tail_limit :]
        end, start = len(head), 0
        while end > len(head) - min(LONGEST, self._head_limit // 4) and _in_word(head[end - 1]):
            end -= 1
        while start < min(LONGEST, self._tail_limit // 4) and _in_word(tail[start]):
            start += 1
        left_out = self.left_out + len(head) - end + start
        return bytes(head[:end]) + f"\n[... {left_out} bytes left out ...]\n".encode() + bytes(tail[start:])


def _in_word(byte: int) -> bool:
    return 0x21 <= byte <= 0x7E
