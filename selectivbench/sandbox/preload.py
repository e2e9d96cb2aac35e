"""Import what is slow to import, once, before a submission is there."""

from __future__ import annotations

import warnings

OPTIONAL = frozenset({"fla"})
"""Slow packages that are imported ahead only where a submission imports them."""


def preload(packages: frozenset[str], device: str) -> None:
    """Import torch, and fla with its CPU backend where it is needed.

    A child forked after torch started its threads would hang, so what is computed here (the CPU
    backend's smallest cases, to load its kernels) is single-threaded.
    """
    import torch
    import torch._dynamo  # the first optimiser imports it anyway: 1 s for every child

    import selectivbench.training  # noqa: F401

    torch.set_num_threads(1)
    if "fla" in packages:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fla warns of every driver that it does not find
            import fla.layers  # noqa: F401
        if device == "cpu":
            from selectivbench import fla_cpu

            fla_cpu.enable()
            fla_cpu.warm_up()  # compiled once here, inherited by every child
