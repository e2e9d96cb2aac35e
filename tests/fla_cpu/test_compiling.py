"""The cache of compiled kernels, and the threads that run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from selectivbench import fla_cpu
from selectivbench.errors import UsageError
from selectivbench.fla_cpu import compiling

ROOT = Path(__file__).parents[2]
WARM = "from selectivbench import fla_cpu; fla_cpu.warm_up(['gate'])"


def _start(home: Path, code: str = WARM) -> subprocess.Popen[str]:
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": "", "TMPDIR": str(home)}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_first_run_says_so_in_one_line_and_the_second_is_silent(tmp_path: Path) -> None:
    first = _start(tmp_path).communicate()[1]
    second = _start(tmp_path).communicate()[1]
    assert first.startswith("fla_cpu: compiling kernels, once per machine, kept in ")
    assert first.count("\n") == 1
    assert second == ""
    assert list((tmp_path / ".cache" / "selectivbench").rglob("*.nbi"))


def test_concurrent_first_runs(tmp_path: Path) -> None:
    runs = [_start(tmp_path) for _ in range(3)]
    outputs = [r.communicate()[1] for r in runs]
    assert [r.returncode for r in runs] == [0, 0, 0], outputs
    assert _start(tmp_path).communicate()[1] == ""


def test_without_a_writable_home_the_cache_is_temporary(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("not a folder")  # root may write anywhere, but not below a file
    code = f"import os, tempfile; tempfile.tempdir = {str(tmp_path)!r}; {WARM}"
    run = _start(home, code)
    message = run.communicate()[1]
    assert run.returncode == 0, message
    assert str(tmp_path / f"cache-{os.getuid()}") in message


def test_the_folder_is_named_after_the_sources() -> None:
    folder = compiling.cache_folder()
    assert folder.name.startswith("kernels-")
    assert folder.parent.name == "selectivbench"


def test_an_unknown_family_is_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"got 'scam', .* \(did you mean 'scan'\?\)"):
        fla_cpu.warm_up(["scam"])


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("items", [1, 2, 7, 100])
def test_every_item_is_done_once(threads: int, items: int) -> None:
    done = np.zeros(items, int)

    def work(first: int, last: int, amount: int) -> None:
        done[first:last] += amount

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        compiling.run(work, items, 5)
    finally:
        torch.set_num_threads(before)
    assert (done == 5).all()


def test_an_error_in_a_thread_is_raised() -> None:
    def fail(first: int, last: int) -> None:
        raise ZeroDivisionError(f"{first}-{last}")

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(ZeroDivisionError):
            compiling.run(fail, 10)
    finally:
        torch.set_num_threads(before)


def test_memory_is_linear_in_time() -> None:
    """What is kept for the backward pass: a state every sixteen steps, not one a step."""
    from selectivbench.fla_cpu.linear import recurrence

    def kept(steps: int) -> int:
        x = torch.randn(1, steps, 1, 32, requires_grad=True)
        sizes: list[int] = []

        def pack(t: torch.Tensor) -> torch.Tensor:
            sizes.append(t.numel())
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            recurrence(x, x, x, x)
        return sum(sizes)

    assert kept(1024) <= 2.01 * kept(512)
    assert kept(1024) < 1024 * 32 * 10
