"""Same layer, same weights, same input: this backend beside fla's real Triton kernels.

On "interpreter" the kernels run under Triton's interpreter; on "cuda" they are compiled. Outputs,
input gradients and every parameter gradient are compared, relative to each tensor's largest entry.
Mamba's scan has no Triton kernel in fla; its other side is fla's own torch code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from layer_cases import BF16, GATES, NAMES, Case, difference, run

DEVICES = [
    "interpreter",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(
            not torch.cuda.is_available(), reason="no CUDA device to compile fla's kernels for"
        ),
    ),
]
TOLERANCE = {"float32": 1e-5, BF16: 2e-2}
# Where fla itself is further from the float64 result than 1e-5; `test_layers` holds this backend
# to 3e-6 of that result for these layers too.
EXCEPTIONS = {
    # fla casts queries and keys to float16.
    "MesaNet": 1e-2,
    # fla moves half of the Householder factors to float16.
    "PaTHAttention": 5e-3,
    # fla's 64-step chunks with a bounded gate: its output is 8e-5 from float64.
    "RWKV7Attention": 2e-4,
    # fla sums log gates over the whole sequence: its gradients of A_log, dt_bias are 3e-5 off.
    "GatedDeltaNet": 6e-5,
    # The same sum, in the gradient of the decay's bias.
    "RWKV6Attention": 5e-5,
}
QUICK = ("GatedLinearAttention", "GatedDeltaNet", "DeltaNet", "Mamba", "Mamba2", "RWKV7Attention")
# Attention needs the flash-attn package for its other side.
COMPARED = tuple(n for n in NAMES if n != "Attention")
QUICK_CASES = [Case(n) for n in QUICK] + [Case("GatedDeltaNet", dtype=BF16)]
FULL_CASES = [
    *(Case(n) for n in COMPARED if n not in QUICK),
    *(Case(n, 64) for n in COMPARED),
    # (Re)Based's gradients vanish with one step but for rounding.
    *(Case(n, 1) for n in COMPARED if "Based" not in n),
    *(Case(n, dtype=BF16) for n in COMPARED if n != "GatedDeltaNet"),
]
CASES = [*QUICK_CASES, *(pytest.param(c, marks=pytest.mark.full) for c in FULL_CASES)]

Theirs = Callable[[str, Any], dict[str, torch.Tensor]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees(device: str, case: Case, theirs: Theirs) -> None:
    name, error = difference(run(case), theirs(device, case))
    allowed = max(TOLERANCE[case.dtype], EXCEPTIONS.get(case.layer, 0.0))
    assert error <= allowed, f"{name}: {error:.1e}"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", [Case(n) for n in GATES], ids=str)
def test_a_gate_moved_by_a_thousandth_is_noticed(device: str, case: Case, theirs: Theirs) -> None:
    _, error = difference(run(case._replace(gate=1.001)), theirs(device, case))
    assert error > 2 * max(TOLERANCE[case.dtype], EXCEPTIONS.get(case.layer, 0.0))
