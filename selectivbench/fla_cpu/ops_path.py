"""PaTH attention: between key j and query i, the key passes a product of Householder-like steps.

    s_ij = scale (q_i H_i H_{i-1} ... H_{j+1} k_j + g_i - g_j),     H_t = 1 - beta_t w_t w_t^T

Within chunks the steps are applied one after another; between chunks by the product of each
chunk. Plain torch: the scores of all pairs are kept, as the softmax needs them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from selectivbench.fla_cpu.activations import wide
from selectivbench.fla_cpu.arguments import packed

CHUNK = 16


@packed
def parallel_path_attn(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    beta: Tensor,
    g: Tensor | None = None,
    scale: float | None = None,
    use_cache: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Outputs, and with `use_cache` the keys as they look from after the last step."""
    dtype, (T, H, K) = q.dtype, q.shape[1:]
    scale = K**-0.5 if scale is None else scale
    R = H // k.shape[2]
    heads = [wide(x).transpose(1, 2) for x in (q, k, v, w, beta.unsqueeze(-1))]
    q, k, v, w, beta = (x if i == 0 else x.repeat_interleave(R, 1) for i, x in enumerate(heads))
    chunks = -(-T // CHUNK)
    pad = (0, 0, 0, chunks * CHUNK - T)
    parts = [F.pad(x, pad).reshape(*x.shape[:2], chunks, CHUNK, -1) for x in (q, k, w, beta * w)]
    scores, keys = _scores(*parts)
    scores = scores[..., :T, :T] * scale
    if g is not None:
        sums = wide(g).transpose(1, 2).cumsum(-1)
        scores = scores + (sums.unsqueeze(-1) - sums.unsqueeze(-2)) * scale
    later = torch.ones(T, T, dtype=torch.bool).triu(1)
    o = scores.masked_fill(later, -torch.inf).softmax(-1) @ v
    cache = keys.flatten(2, 3)[:, ::R, :T].transpose(1, 2).to(dtype) if use_cache else None
    return o.transpose(1, 2).to(dtype), cache


def _scores(q: Tensor, k: Tensor, w: Tensor, bw: Tensor) -> tuple[Tensor, Tensor]:
    """Scores (B, H, T, T) of chunked inputs (B, H, chunks, CHUNK, K), and the keys at the end."""
    chunks, K = q.shape[2], q.shape[4]
    inner, ends = _within(q, k, w, bw)
    product = torch.eye(K, dtype=q.dtype).expand(*q.shape[:3], K, K)
    starts = q
    for t in range(CHUNK):
        wt, bt = w[..., t : t + 1, :], bw[..., t : t + 1, :]
        product = product - (product @ wt.transpose(-1, -2)) @ bt
    for t in range(CHUNK - 1, -1, -1):
        wt, bt = w[..., t : t + 1, :], bw[..., t : t + 1, :]
        moved = starts[..., t:, :] - (starts[..., t:, :] @ wt.transpose(-1, -2)) @ bt
        starts = torch.cat((starts[..., :t, :], moved), -2)
    # `product` maps a row vector from before the chunk to after it; queries go the other way.
    back = product.transpose(-1, -2)
    rows, seen = [[inner[:, :, a]] for a in range(chunks)], starts
    for d in range(1, chunks):
        block = seen[:, :, d:] @ ends[:, :, : chunks - d].transpose(-1, -2)
        for a in range(d, chunks):
            rows[a].insert(0, block[:, :, a - d])
        crossed = seen[:, :, d:] @ back[:, :, : chunks - d]
        seen = torch.cat((seen[:, :, :d], crossed), 2)
    wide_rows = [F.pad(torch.cat(r, -1), (0, (chunks - len(r)) * CHUNK)) for r in rows]
    return torch.cat(wide_rows, -2), _to_the_end(ends, product)


def _within(q: Tensor, k: Tensor, w: Tensor, bw: Tensor) -> tuple[Tensor, Tensor]:
    """Scores inside every chunk, and the chunk's keys after its last step."""
    rows, keys = [], k[..., :0, :]
    for t in range(CHUNK):
        wt, bt = w[..., t : t + 1, :], bw[..., t : t + 1, :]
        keys = torch.cat((keys - (keys @ wt.transpose(-1, -2)) @ bt, k[..., t : t + 1, :]), -2)
        row = q[..., t : t + 1, :] @ keys.transpose(-1, -2)
        rows.append(F.pad(row, (0, CHUNK - 1 - t)))
    return torch.cat(rows, -2), keys


def _to_the_end(keys: Tensor, product: Tensor) -> Tensor:
    """Every chunk's keys after all later chunks."""
    done: list[Tensor] = []
    later = torch.eye(keys.shape[-1], dtype=keys.dtype).expand(*keys.shape[:2], -1, -1)
    for c in range(keys.shape[2] - 1, -1, -1):
        done.insert(0, keys[:, :, c] @ later)
        later = product[:, :, c] @ later
    return torch.stack(done, 2)
