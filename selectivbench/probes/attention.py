"""Softmax attention: the weights that fused kernels never show, computed again from q and k."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selectivbench.errors import SubmissionError, explain
from selectivbench.probes.tape import Tape

NAME = "attention"


def weights(
    query: Tensor,
    key: Tensor,
    _value: Tensor,
    attn_mask: Tensor | None = None,
    _dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    **_: Any,
) -> Tensor:
    """(B, H, T, T): what ``scaled_dot_product_attention`` multiplies the values by.

    Takes its arguments, and its formula from torch's documentation.
    """
    if query.ndim != 4 or query.shape[-2] != key.shape[-2]:
        got, allowed = tuple(query.shape), "(B, H, T, K) with as many keys as queries"
        raise SubmissionError(explain("attention under a probe: queries", got, allowed))
    if enable_gqa:
        key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    scores = query.float() @ key.float().mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(~_causal(scores), -torch.inf)
    if attn_mask is not None:
        shut = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if shut else scores + attn_mask
    return scores.softmax(dim=-1)


def forgetting_weights(query: Tensor, key: Tensor, log_gate: Tensor) -> Tensor:
    """(B, H, T, T) of q and k (B, T, H, K) and log forget gates (B, T, H).

    The score of step t for step s gets the sum of the log gates after s and up to t (Forgetting
    Transformer, equation 6).
    """
    query, key = (x.transpose(1, 2).float() for x in (query, key))
    passed = log_gate.float().cumsum(1).transpose(1, 2)
    scores: Tensor = query @ key.mT / math.sqrt(query.shape[-1])
    scores += passed[..., :, None] - passed[..., None, :]
    return scores.masked_fill(~_causal(scores), -torch.inf).softmax(dim=-1)


def _causal(scores: Tensor) -> Tensor:
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()


@contextmanager
def multihead(tape: Tape, path: str, module: nn.MultiheadAttention) -> Iterator[None]:
    """torch's MultiheadAttention gives its weights when asked."""

    def ask(_module: nn.Module, given: Any, named: dict[str, Any]) -> Any:
        return given[:3], named | {"need_weights": True, "average_attn_weights": False}

    def listen(_module: nn.Module, _given: Any, output: Any) -> Any:
        tape.note(path, NAME, "read", output[1])

    with ExitStack() as handles:
        handles.callback(module.register_forward_pre_hook(ask, with_kwargs=True).remove)
        handles.callback(module.register_forward_hook(listen).remove)
        yield


@contextmanager
def rotated(tape: Tape, path: str, layer: Any) -> Iterator[None]:
    """fla's Attention: q and k (B, T, H, K) as they come out of the rotation."""

    def listen(_module: nn.Module, _given: Any, output: tuple[Tensor, Tensor]) -> None:
        q, k = (x.transpose(1, 2) for x in output)
        mask = None
        if layer.window_size is not None:
            steps = q.shape[-2]
            seen = torch.ones(steps, steps, dtype=torch.bool, device=q.device)
            mask = seen.triu(1 - layer.window_size)
        scores = weights(q, k, k, mask, is_causal=True, enable_gqa=True)
        tape.note(path, NAME, "read", scores)

    with ExitStack() as handles:
        handles.callback(layer.rotary.register_forward_hook(listen).remove)
        yield


@contextmanager
def forgetting(tape: Tape, path: str, layer: Any) -> Iterator[None]:
    """fla's ForgettingAttention: q, k and the gate's raw form as its submodules give them."""
    heard: dict[str, Tensor] = {}
    places = {"q": "q_norm", "k": "k_norm"} if layer.qk_norm else {"q": "q_proj", "k": "k_proj"}

    def note(name: str) -> Any:
        return lambda _module, _given, output: heard.__setitem__(name, output)

    def listen(_module: nn.Module, _given: Any, _output: Any) -> None:
        q, k = (x.view(*x.shape[:2], -1, layer.head_dim) for x in (heard["q"], heard["k"]))
        k = k.repeat_interleave(q.shape[2] // k.shape[2], dim=2)
        tape.note(path, NAME, "read", forgetting_weights(q, k, F.logsigmoid(heard["f"].float())))

    with ExitStack() as handles:
        for name, place in (places | {"f": "f_proj"}).items():
            handles.callback(getattr(layer, place).register_forward_hook(note(name)).remove)
        handles.callback(layer.register_forward_hook(listen).remove)
        yield
