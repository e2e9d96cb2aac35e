"""The trained state on its way between two processes: safetensors bytes, counted without torch.

The format is 8 bytes of length, that many bytes of JSON ``{name: {dtype, shape, data_offsets}}``,
then the numbers. Nothing in it can run.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selectivbench.errors import ProtocolError, explain
from selectivbench.profiles import ModelSize
from selectivbench.sandbox.protocol import LARGEST_ARRAYS

WIDTHS: Mapping[str, int] = MappingProxyType(
    {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2}
    | {"I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8}
)
"""Bytes of one number."""
BYTES_PER_PARAMETER, SPARE_BYTES = 16, 16 << 20
"""A state may have this much for each declared parameter, and this much besides."""
LARGEST = 1 << 29
"""Bytes of a state, whatever number of parameters was declared, where no larger model was ordered."""
USUAL_BLOCK = 32
"""Parameters of a block in squares of its width; the largest published one has 16."""
LARGEST_HEADER, HEADER_SHARE, MOST_AXES = 1 << 18, 16, 8
"""Bytes of names and shapes (or a sixteenth of all, where that is more), and axes of a tensor: what is
in them is counted by nobody. A model of ours takes 6 KiB."""


@dataclass(frozen=True)
class State:
    """A trained model as its bytes, and how many numbers it really holds."""

    raw: NDArray[np.uint8]
    numbers: int

    @classmethod
    def sent(cls, raw: NDArray[Any] | None) -> State:
        """From a frame of a child; ProtocolError where it is no row of bytes, or not what it says."""
        if raw is None or raw.dtype != np.uint8 or raw.ndim != 1:
            raise ProtocolError(explain("state", type(raw).__name__, "one row of bytes"))
        return cls.read(raw)

    @classmethod
    def read(cls, raw: NDArray[np.uint8]) -> State:
        """Count what a child sent; ProtocolError where it is not what it says."""
        try:
            return cls(raw, sum(_numbers(raw)))
        except (ValueError, KeyError, TypeError, RecursionError, struct.error) as error:
            raise ProtocolError(f"the saved state is none: {error}") from error

    @property
    def labels(self) -> dict[str, str]:
        """The texts that ``labelled`` put in; none where there are none, or no texts."""
        found = _header(self.raw)[0].get("__metadata__", {})
        texts = isinstance(found, dict) and all(type(value) is str for value in found.values())
        return found if texts else {}

    def labelled(self, labels: Mapping[str, str]) -> State:
        """The same numbers, with texts in the header (safetensors' ``__metadata__``)."""
        header, body = _header(self.raw)
        text = json.dumps({"__metadata__": dict(labels), **_tensors(header)}).encode()
        text += b" " * (-len(text) % 8)  # the format asks for numbers at a multiple of 8
        raw = struct.pack("<Q", len(text)) + text + self.raw[body:].tobytes()
        return State(np.frombuffer(raw, dtype=np.uint8), self.numbers)

    @property
    def finite(self) -> bool:
        """Whether every number of a floating type is one: no NaN, no infinity."""
        header, body = _header(self.raw)
        entries = _tensors(header).values()
        return all(
            _finite(self.raw[body + begin : body + end], entry["dtype"])
            for entry in entries
            for begin, end in (entry["data_offsets"],)
        )


def largest(parameters: int, ordered: int = 0) -> int:
    """Bytes that the state of a model may take.

    parameters: as its process declares. ordered: as the stack that was ordered may well have.
    """
    most = min(LARGEST_ARRAYS, max(LARGEST, ordered * BYTES_PER_PARAMETER))
    return min(most, parameters * BYTES_PER_PARAMETER + SPARE_BYTES)


def usual(size: ModelSize) -> int:
    """Parameters that the blocks of an ordered stack may well have."""
    return USUAL_BLOCK * size.d_model**2 * size.n_layers


def _header(raw: NDArray[np.uint8]) -> tuple[dict[str, Any], int]:
    """The header, and where the numbers begin."""
    (length,) = struct.unpack("<Q", raw[:8].tobytes())
    most = max(LARGEST_HEADER, len(raw) // HEADER_SHARE)
    if length > most:
        raise ValueError(explain("header in bytes", length, f"{most} at most"))
    header = json.loads(raw[8 : 8 + length].tobytes())
    if not isinstance(header, dict):
        raise ValueError(explain("header", type(header).__name__, "an object of tensors"))
    return header, 8 + length


def _tensors(header: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry for name, entry in header.items() if name != "__metadata__"}


def _numbers(raw: NDArray[np.uint8]) -> list[int]:
    """How many each tensor holds; together they must fill the bytes exactly."""
    header, body = _header(raw)
    counts, filled = [], 0
    for name, entry in _tensors(header).items():
        begin, end = entry["data_offsets"]
        numbers = math.prod(_shape(entry["shape"]))
        if numbers * WIDTHS[entry["dtype"]] != end - begin or begin < 0:
            raise ValueError(explain(f"tensor {name[:100]!r}", entry, "a size that fits its shape"))
        counts.append(numbers)
        filled += end - begin
    if filled != len(raw) - body:
        raise ValueError(explain("bytes of tensors", len(raw) - body, filled))
    return counts


def _finite(raw: NDArray[np.uint8], dtype: str) -> bool:
    if dtype == "BF16":  # NumPy has none: all exponent bits set is what no number has
        return bool(((raw.view("<u2") & 0x7F80) != 0x7F80).all())
    if dtype in ("F16", "F32", "F64"):
        return bool(np.isfinite(raw.view(f"<f{WIDTHS[dtype]}")).all())
    return True


def _shape(shape: Any) -> list[int]:
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 1 << 32 for n in shape):
        raise ValueError(explain("shape", shape, "whole numbers"))
    if len(shape) > MOST_AXES:  # a product of many large numbers takes for ever
        raise ValueError(explain("axes", len(shape), f"{MOST_AXES} at most"))
    return shape
