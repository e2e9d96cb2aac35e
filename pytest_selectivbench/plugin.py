"""The entry point: options always, everything else only where ``--selectiv-model`` is given."""

from __future__ import annotations

import pytest

from pytest_selectivbench import options


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and their ini twins."""
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Without a model stay inert: no hook, no import, no item."""
    if not config.getoption("selectiv_model") and not config.getini("selectiv_model"):
        return
    from pytest_selectivbench.active import ActivePlugin
    from selectivbench.errors import SelectivError

    try:
        plugin = ActivePlugin.of(config)
    except SelectivError as error:
        raise pytest.UsageError(str(error)) from error
    config.pluginmanager.register(plugin, "selectivbench-active")
