"""What controller and child say to each other: frames of one JSON header and raw arrays.

A frame is a 4-byte length, that many bytes of JSON ``{"kind", "meta", "arrays": [[name, dtype,
shape], …]}``, then each array's bytes in C order. Nothing is pickled in either direction, and every
length is checked before it is believed.
"""

from __future__ import annotations

import json
import math
import select
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selectivbench.errors import ChildCrashed, ChildTimeout, ProtocolError, explain

LARGEST_HEADER = 1 << 20
LARGEST_ARRAYS = 1 << 32
MOST_PARTS = 1_000
"""Buffers of one call; the kernel takes 1,024."""
DTYPES = ("uint8", "int16", "int32", "uint64", "float32")


@dataclass(frozen=True)
class Frame:
    """One message: what it is, small facts, arrays."""

    kind: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class Channel:
    """One end of a connected stream socket that speaks frames."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(
        self,
        kind: str,
        meta: Mapping[str, Any] | None = None,
        deadline: float = math.inf,
        **arrays: NDArray[Any],
    ) -> None:
        """Write one frame; ChildCrashed where the other end is gone.

        ``deadline`` is on the monotonic clock: a child that no longer reads must not hold us up.
        """
        layout = [[name, _name(array.dtype), list(array.shape)] for name, array in arrays.items()]
        header = json.dumps({"kind": kind, "meta": dict(meta or {}), "arrays": layout}).encode()
        parts = [memoryview(struct.pack("<I", len(header)) + header)]
        # An empty array has no bytes, and its buffer cannot be cast.
        parts += [np.ascontiguousarray(a).data.cast("B") for a in arrays.values() if a.size]
        try:
            self._write(parts, deadline)
        except (OSError, ValueError) as error:  # ValueError: closed by another thread of ours
            raise ChildCrashed(f"the other end of the channel is gone ({error}).") from error

    def receive(self, deadline: float = math.inf, most: int = LARGEST_ARRAYS) -> Frame:
        """Read one frame with ``most`` bytes of arrays; ``deadline`` is on the monotonic clock.

        ChildCrashed at the stream's end. Too large a frame is refused before its memory is taken.
        """
        (length,) = struct.unpack("<I", self._read(4, deadline))
        if length > LARGEST_HEADER:
            raise ProtocolError(
                explain("frame header in bytes", length, f"{LARGEST_HEADER} at most")
            )
        kind, meta, layout = _header(bytes(self._read(length, deadline)))
        if (total := sum(size for *_, size in layout)) > most:
            raise ProtocolError(explain("frame arrays in bytes", total, f"{most} at most"))
        arrays = {
            name: np.frombuffer(self._read(size, deadline), dtype=dtype).reshape(shape)
            for name, dtype, shape, size in layout
        }
        return Frame(kind, meta, arrays)

    def close(self) -> None:
        """Shut both directions, so that a peer or thread blocked on them wakes up."""
        with suppress(OSError):  # already gone: nothing left to wake
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def _write(self, parts: Sequence[memoryview], deadline: float) -> None:
        """All parts in one call where there is room; one that is full is waited for."""
        flags = 0 if math.isinf(deadline) else socket.MSG_DONTWAIT
        while parts:
            try:
                sent = self.sock.sendmsg(parts[:MOST_PARTS], (), flags)
            except BlockingIOError:
                self._await(deadline, select.POLLOUT)
            else:
                parts = list(_after(parts, sent))

    def _read(self, size: int, deadline: float) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            try:
                self._await(deadline)
                got = self.sock.recv_into(view)
            except (OSError, ValueError) as error:  # ValueError: closed by another thread of ours
                raise ChildCrashed(f"the other end of the channel is gone ({error}).") from error
            if not got:
                raise ChildCrashed("the other end of the channel closed it.")
            view = view[got:]
        return data

    def _await(self, deadline: float, event: int = select.POLLIN) -> None:
        if math.isinf(deadline):
            return
        poll = select.poll()  # select() fails on descriptors over 1023
        poll.register(self.sock, event)
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise ChildTimeout("no answer before the deadline.")


@cache
def _name(dtype: np.dtype[Any]) -> str:
    return dtype.name  # numpy makes it anew each time, in 25 microseconds


def _after(parts: Iterable[memoryview], sent: int) -> Iterator[memoryview]:
    """What is left of the parts when so many bytes are gone."""
    for part in parts:
        if sent < len(part):
            yield part[sent:]
        sent = max(0, sent - len(part))


def _header(raw: bytes) -> tuple[str, dict[str, Any], list[tuple[str, str, tuple[int, ...], int]]]:
    """Kind, meta and (name, dtype, shape, bytes) of each array, all of them checked."""
    try:
        data = json.loads(raw)
        kind, meta, arrays = data["kind"], data["meta"], data["arrays"]
        layout = [_array(*entry) for entry in arrays]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProtocolError(f"a frame's header is not one: {error}") from error
    if not isinstance(kind, str) or not isinstance(meta, dict):
        raise ProtocolError("a frame's header is not one: kind must be text, meta an object.")
    return kind, meta, layout


def _array(name: Any, dtype: Any, shape: Any) -> tuple[str, str, tuple[int, ...], int]:
    if not isinstance(name, str) or dtype not in DTYPES or not isinstance(shape, list):
        raise ValueError(explain("frame array", [name, dtype, shape], f"a dtype of {DTYPES}"))
    if not all(type(n) is int and 0 <= n < 1 << 32 for n in shape) or len(shape) > 4:
        raise ValueError(explain("frame array shape", shape, "at most 4 axes of whole numbers"))
    return name, dtype, tuple(shape), math.prod(shape) * np.dtype(dtype).itemsize
