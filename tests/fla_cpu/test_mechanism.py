"""Enabling, disabling, and what happens where the backend does not serve a call."""

from __future__ import annotations

import subprocess
import sys
import threading
from importlib import import_module
from inspect import unwrap
from pathlib import Path

import pytest
import torch

from selectivbench import fla_cpu
from selectivbench.errors import UsageError
from selectivbench.fla_cpu import backend, table
from selectivbench.fla_cpu.arguments import reject


def _run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, **environment},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_nothing_heavy_is_imported_before_enable() -> None:
    code = (
        "import sys; from selectivbench import fla_cpu; "
        "print([m for m in ('fla', 'torch', 'numba', 'triton') if m in sys.modules])"
    )
    assert _run(code).stdout.strip() == "[]"


@pytest.mark.parametrize("hook", table.NATIVE, ids=lambda h: h.name)
def test_fla_still_dispatches(hook: table.Hook) -> None:
    fla_cpu.disable()
    function = getattr(import_module(hook.module), hook.name)
    if hook.operation is None:
        from fla import backends

        assert unwrap(function) in backends._function_registries
    else:
        registered = backend.Installation()
        registry = registered._backends._get_operation_registry(hook.operation)
        served = registry._backends["cpu"].get_implementation(hook.name)
        registered.restore()
        assert served is backend.implementation(hook)


@pytest.mark.parametrize("hook", table.PROMOTED, ids=lambda h: h.name)
def test_promotion_is_still_needed(hook: table.Hook) -> None:
    fla_cpu.disable()
    function = getattr(import_module(hook.module), hook.name)
    assert function.__module__ == hook.module
    closure = function.__closure__ or ()
    kinds = {type(cell.cell_contents).__name__ for cell in closure}
    assert "BackendRegistry" not in kinds, "fla dispatches it now: move it to NATIVE"


@pytest.mark.parametrize("hook", table.METHODS, ids=lambda h: h.name)
def test_methods_are_still_there(hook: table.Hook) -> None:
    owner, name = hook.name.split(".")
    assert callable(getattr(getattr(import_module(hook.module), owner), name))


def test_every_hook_has_an_implementation() -> None:
    for hook in (*table.NATIVE, *table.PROMOTED, *table.METHODS, *table.SUPPLIED):
        assert callable(backend.implementation(hook))


def test_a_moved_name_is_one_sentence() -> None:
    hook = table.Hook("fla.ops.gla.chunk", "chunk_gla_of_the_future", "ops_linear:chunk_gla")
    with pytest.raises(UsageError, match=r"has no function chunk_gla_of_the_future; install"):
        backend._theirs(hook)


def test_another_release_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    fla = import_module("fla")
    monkeypatch.setattr(fla, "__version__", "0.7.1")
    with pytest.raises(UsageError, match=r"got '0\.7\.1', allowed: 0\.6\.x; pip install"):
        backend._check_fla()


def _names() -> dict[str, object]:
    import fla.layers.attn
    import fla.layers.gla
    import fla.layers.mamba
    import fla.modules.layernorm_gated
    import fla.ops.gla

    return {
        "layer": fla.layers.gla.chunk_gla,
        "package": fla.ops.gla.chunk_gla,
        "method": fla.layers.mamba.Mamba.slow_forward,
        "norm": fla.modules.layernorm_gated.rmsnorm_fn,
        "flash": fla.layers.attn.flash_attn_func,
    }


def test_disable_gives_fla_back_and_enable_is_idempotent() -> None:
    fla_cpu.disable()
    before = _names()
    fla_cpu.enable()
    during = _names()
    fla_cpu.enable()
    assert _names() == during
    assert fla_cpu.is_enabled()
    assert not any(during[n] is before[n] for n in before)
    fla_cpu.disable()
    fla_cpu.disable()
    assert _names() == before
    assert not fla_cpu.is_enabled()
    with pytest.raises(RuntimeError, match="0 active drivers"):
        _gla()


def _gla() -> torch.Tensor:
    from fla.ops.gla import chunk_gla

    return chunk_gla(*torch.randn(4, 1, 70, 1, 16))[0]


def test_a_name_taken_before_enabling_is_served_too() -> None:
    fla_cpu.disable()
    from fla.ops import gla

    module = type(sys)("somebody_elses_script")
    module.chunk_gla = gla.chunk_gla
    sys.modules[module.__name__] = module
    try:
        fla_cpu.enable()
        assert module.chunk_gla is gla.chunk_gla
        assert module.chunk_gla(*torch.randn(4, 1, 70, 1, 16))[0].shape == (1, 70, 1, 16)
    finally:
        del sys.modules[module.__name__]


def test_enabling_from_many_threads_installs_once() -> None:
    fla_cpu.disable()
    barrier = threading.Barrier(8)

    def enable() -> None:
        barrier.wait()
        fla_cpu.enable()

    threads = [threading.Thread(target=enable) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(fla_cpu._installed) == 1


def test_threads_train_at_the_same_time() -> None:
    from layer_cases import Case, difference, run

    alone = run(Case("GatedDeltaNet"))
    results: list[dict[str, torch.Tensor]] = []
    # The layer is built from the global random stream, so only its training runs side by side.
    from layer_cases import build

    modules = [build("GatedDeltaNet") for _ in range(4)]

    def train(module: torch.nn.Module) -> None:
        x = torch.ones(2, 90, 32)
        module(x)[0].square().sum().backward()
        results.append({n: p.grad for n, p in module.named_parameters()})

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    threads = [threading.Thread(target=train, args=(m,)) for m in modules]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    torch.set_num_threads(before)
    assert len(results) == 4
    assert all(difference(r, results[0])[1] < 2e-6 for r in results)
    assert "y" in alone


def test_gpu_tensors_are_left_to_triton() -> None:
    from fla import backends

    cpu = backend._backend(backends)()
    cpu.implementation = _gla
    assert cpu.verify("chunk_gla", torch.zeros(1))[0]
    assert not cpu.verify("chunk_gla", torch.zeros(1, device="meta"))[0]
    assert not cpu.verify("chunk_gla", None, q=torch.zeros(1, device="meta"))[0]
    assert not cpu.verify("chunk_gla", 3)[0]


def test_a_layer_without_a_cpu_version_is_one_sentence() -> None:
    from fla.layers import ABCAttention

    layer = ABCAttention(hidden_size=32, num_heads=2, layer_idx=0)
    with pytest.raises(UsageError, match=r"no GPU for the Triton kernel logcumsumexp_fwd_kernel"):
        layer(torch.randn(1, 70, 32))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"gv": torch.zeros(1)}, "gv='Tensor'"), ({"reverse": True}, "reverse=True")],
)
def test_an_argument_without_a_cpu_version_is_one_sentence(
    arguments: dict[str, object], named: str
) -> None:
    from fla.ops.gla import fused_recurrent_gla

    with pytest.raises(
        UsageError, match=f"fused_recurrent_gla on CPU tensors does not serve {named}"
    ):
        fused_recurrent_gla(*torch.randn(4, 1, 5, 1, 16), **arguments)
    reject("fused_recurrent_gla", gv=None, reverse=False)


FORK = """
import os, torch
from selectivbench import fla_cpu
from fla.layers import GatedDeltaNet
fla_cpu.enable(); fla_cpu.warm_up(["delta", "conv", "norm"])
for threads in (1, 2):
    child = os.fork()
    if child == 0:
        torch.set_num_threads(threads)
        layer = GatedDeltaNet(hidden_size=32, num_heads=2, head_dim=16, layer_idx=0)
        layer(torch.randn(4, 80, 32))[0].sum().backward()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, threads
print("both children trained")
"""


def test_a_forked_child_trains() -> None:
    done = _run(FORK)
    assert done.stdout.endswith("both children trained\n"), done.stderr


def test_importing_and_enabling_under_warnings_as_errors() -> None:
    code = "from selectivbench import fla_cpu; fla_cpu.enable(); print(fla_cpu.is_enabled())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.strip() == "True", done.stderr
