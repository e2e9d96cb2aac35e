"""What the ops share: packed sequences, state layouts, and refusals in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

from selectivbench.errors import UsageError

Op = TypeVar("Op", bound=Callable[..., tuple[Any, ...]])


def refuse(op: str, argument: str, got: object, remedy: str) -> UsageError:
    """The error for an argument that only fla's GPU kernels serve."""
    return UsageError(f"fla_cpu: {op} on CPU tensors does not serve {argument}={got!r}; {remedy}.")


def reject(op: str, **given: object) -> None:
    """Refuse arguments that are set although this backend has no meaning for them."""
    for argument, value in given.items():
        if value is not None and value is not False:
            kind = type(value).__name__ if isinstance(value, Tensor) else value
            raise refuse(op, argument, kind, "leave it out or run on a GPU")


def packed(op: Op) -> Op:
    """Serve `cu_seqlens`: run the op on each sequence of a packed batch, and pack the results.

    Tensors (1, T, ...) are cut along T, `initial_state` along its sequences; an op that gives
    several rows per step (a product of householders) has T times as many.
    """

    @wraps(op)
    def call(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        cu_seqlens = kwargs.pop("cu_seqlens", None)
        for name in ("cu_seqlens_cpu", "chunk_indices"):
            kwargs.pop(name, None)
        if cu_seqlens is None:
            return op(*args, **kwargs)
        edges = cu_seqlens.tolist()
        T = edges[-1]
        results = [
            op(
                *(_cut(a, i, edges, T) for a in args),
                **{
                    n: _state(a, i) if n == "initial_state" else _cut(a, i, edges, T)
                    for n, a in kwargs.items()
                },
            )
            for i in range(len(edges) - 1)
        ]
        outputs, states = zip(*results, strict=True)
        return torch.cat(outputs, 1), _join(states)

    return call  # type: ignore[return-value]


def _cut(value: Any, i: int, edges: list[int], T: int) -> Any:
    if not isinstance(value, Tensor) or value.ndim < 3 or value.shape[0] != 1:
        return value
    times, rest = divmod(value.shape[1], T)
    return value[:, edges[i] * times : edges[i + 1] * times] if times and not rest else value


def _state(value: Any, i: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_state(v, i) for v in value)
    return None if value is None else value[i : i + 1]


def _join(states: tuple[Any, ...]) -> Any:
    if states[0] is None:
        return None
    if isinstance(states[0], tuple):
        return tuple(_join(s) for s in zip(*states, strict=True))
    return torch.cat(states)


def keys_first(state: Tensor | None, v_first: bool) -> Tensor | None:
    """A state (N, H, K, V), whatever order of keys and values it came in."""
    return state.transpose(-1, -2) if state is not None and v_first else state


def finish(
    o: Tensor, state: Tensor, dtype: torch.dtype, output_final_state: bool, v_first: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Outputs in the caller's dtype, and the last state in the caller's order if it wants it."""
    if not output_final_state:
        return o.to(dtype), None
    state = state.transpose(-1, -2).contiguous() if v_first else state
    return o.to(dtype), state
