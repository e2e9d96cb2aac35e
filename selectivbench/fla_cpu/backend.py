"""Puts this package's functions behind fla's names, and takes them away again."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import unwrap
from typing import Any

from torch import Tensor

from selectivbench.errors import UsageError, explain
from selectivbench.fla_cpu import missing
from selectivbench.fla_cpu.table import (
    METHODS,
    NATIVE,
    PROMOTED,
    SUPPLIED,
    SUPPORTED_FLA,
    Hook,
)

Function = Callable[..., Any]
MAMBA_LOGGERS = ("fla.layers.mamba", "fla.layers.mamba2")


class Installation:
    """All of `table.py`, put into fla once; `restore` undoes it."""

    def __init__(self) -> None:
        _check_fla()
        from fla import backends

        self._backends = backends
        self._cpu = _backend(backends)
        self._rebound: dict[int, tuple[Function, Function]] = {}
        self._methods: list[tuple[type, str, Function]] = []
        self._registries: list[Any] = []
        for hook in NATIVE:
            self._register(hook, _theirs(hook))
        for hook in PROMOTED:
            theirs = _theirs(hook)
            wrapper = backends.dispatch(theirs)
            self._rebound[id(theirs)] = (theirs, wrapper)
            self._register(hook, wrapper)
        _rebind({key: new for key, (_, new) in self._rebound.items()})
        for hook in METHODS:
            self._replace(hook)
        self._supplied = [hook for hook in SUPPLIED if self._supply(hook)]
        missing.refuse_launches()
        for name in MAMBA_LOGGERS:
            logging.getLogger(name).addFilter(_not_about_kernels)

    def restore(self) -> None:
        for registry in self._registries:
            registry._backends.pop(self._cpu.backend_type, None)
        _rebind({id(new): old for old, new in self._rebound.values()})
        for owner, name, method in self._methods:
            setattr(owner, name, method)
        for hook in self._supplied:
            setattr(import_module(hook.module), hook.name, None)
        missing.allow_launches()
        for name in MAMBA_LOGGERS:
            logging.getLogger(name).removeFilter(_not_about_kernels)

    def _supply(self, hook: Hook) -> bool:
        module = import_module(hook.module)
        missing = getattr(module, hook.name, None) is None
        if missing:
            setattr(module, hook.name, implementation(hook))
        return missing

    def _register(self, hook: Hook, theirs: Function) -> None:
        ours = implementation(hook)
        if hook.operation is None:
            self._backends.register(theirs, backend=self._cpu)(ours)
            self._registries.append(self._backends._function_registries[unwrap(theirs)])
            return
        registry = self._backends._get_operation_registry(hook.operation)
        present = registry._backends.get(self._cpu.backend_type)
        methods = {hook.name: staticmethod(ours)}
        kind = type("Cpu", (self._cpu if present is None else type(present),), methods)
        self._backends.register(hook.operation)(kind)
        self._registries.append(registry)

    def _replace(self, hook: Hook) -> None:
        owner_name, name = hook.name.split(".")
        owner = getattr(import_module(hook.module), owner_name)
        theirs, ours = getattr(owner, name), implementation(hook)

        def method(self: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
            chosen = ours if x.device.type == "cpu" else theirs
            return chosen(self, x, *args, **kwargs)

        setattr(owner, name, method)
        self._methods.append((owner, name, theirs))


def _backend(backends: Any) -> Any:
    class Cpu(backends.BaseBackend):  # type: ignore[misc]
        """Takes a call when its first tensor is on the CPU, so that GPU tensors keep Triton."""

        backend_type = "cpu"
        priority = -1

        def verify(self, function_name: str, *args: Any, **kwargs: Any) -> tuple[bool, str | None]:
            for value in (*args, *kwargs.values()):
                if isinstance(value, Tensor):
                    served = self.get_implementation(function_name) is not None
                    return value.device.type == "cpu" and served, "not a CPU tensor"
            return False, "no tensor"

    return Cpu


def implementation(hook: Hook) -> Function:
    module, name = hook.ours.split(":")
    found: Function = getattr(import_module(f"{__package__}.{module}"), name)
    return found


def _theirs(hook: Hook) -> Function:
    found: Function | None = getattr(import_module(hook.module), hook.name, None)
    if found is None:
        raise UsageError(
            f"fla_cpu: {hook.module} has no function {hook.name}; "
            f"install flash-linear-attention {' or '.join(SUPPORTED_FLA)}.x."
        )
    return found


def _check_fla() -> None:
    with importing_fla():
        version: str = import_module("fla").__version__
        import_module("fla.layers")
    if version.rpartition(".")[0] not in SUPPORTED_FLA:
        allowed = ", ".join(f"{v}.x" for v in SUPPORTED_FLA)
        remedy = "pip install 'flash-linear-attention>=0.6,<0.7'"
        raise UsageError(
            explain("fla_cpu: version of flash-linear-attention", version, allowed, remedy)
        )
    if os.environ.get("FLA_DISABLE_BACKEND_DISPATCH") == "1":
        raise UsageError(
            explain("FLA_DISABLE_BACKEND_DISPATCH", "1", "unset", "unset it before fla is imported")
        )


def _not_about_kernels(record: logging.LogRecord) -> bool:
    """Keeps back that Mamba would fall back to a slow path: it does not any more."""
    text = record.getMessage()
    return not any(words in text for words in ("fast path", "CUDA backend", "Triton's conv1d"))


@contextmanager
def importing_fla() -> Iterator[None]:
    """fla, its models and Triton warn while they are imported that there is no GPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _rebind(new: dict[int, Function]) -> None:
    """Exchange functions, by identity, in every module that holds one under some name."""
    for module in list(sys.modules.values()):
        namespace = getattr(module, "__dict__", None)
        if not isinstance(namespace, dict):
            continue
        for name, value in list(namespace.items()):
            if id(value) in new and callable(value):
                namespace[name] = new[id(value)]
