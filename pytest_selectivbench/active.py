"""The hooks that work when a model is given; registered by plugin.py, absent otherwise."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_selectivbench import options, summary, timing_table
from pytest_selectivbench.bench import LAB
from pytest_selectivbench.cases import BENCH, Benchmark, Case, Plan
from pytest_selectivbench.ears import Ears
from pytest_selectivbench.followers import trackings
from pytest_selectivbench.lab import Lab, Models, manifest_path, timing_path
from pytest_selectivbench.results import Row, lines, row_of
from pytest_selectivbench.sharing import placed
from pytest_selectivbench.timings import PROPERTY as TIMED
from selectivbench.machine import gpus_of, versions
from selectivbench.sandbox.launchers import Launchers
from selectivbench.sandbox.levels import Isolation, resolve
from selectivbench.saved import FOLDER
from selectivbench.store import SESSION, RecordStore
from selectivbench.times import Timing
from selectivbench.tracking.marks import Mirrored

TROUBLES = "selectivbench_troubles"
"""What a worker sends its controller in the end; one JSON string, since xdist takes primitives only."""


class ActivePlugin:
    """One benchmark session: collects the cases, holds the rows, prints the table."""

    def __init__(
        self,
        settings: options.Settings,
        plan: Plan,
        isolation: Isolation,
        only: tuple[str, ...],
        worker: bool,
    ) -> None:
        self.settings, self.plan, self.isolation = settings, plan, isolation
        self.only, self.worker = only, worker
        self.rows: dict[str, Row] = {}
        self.timings: dict[str, Timing] = {}
        self.troubles: list[str] = []
        self.began = time.time()

    @classmethod
    def of(cls, config: pytest.Config) -> ActivePlugin:
        """Check every option, point pytest at the bench module, and make the lab."""
        settings = options.read(config)
        assert settings is not None, "plugin.py looks first"
        plan = Plan.of(settings)
        isolation = resolve(settings.isolate)
        only = _take_arguments(config, plan.files)
        workerinput = getattr(config, "workerinput", None)
        own = f"{os.getpid()}-{time.time_ns()}"
        config.option.selectiv_run = workerinput["selectiv_run"] if workerinput else own
        plan = replace(plan, device=placed(plan.device, workerinput, gpus_of(), os.environ))
        if not config.option.collectonly:
            store = RecordStore(settings.out, time.time() if settings.rerun else 0.0)
            launchers = Launchers(plan.device.kind, isolation)
            models = Models(settings.out / FOLDER, settings.save, settings.from_saved)
            tracking = trackings(settings.out, settings.wandb)
            ears = Ears(settings.out / SESSION, launchers) if settings.wandb else None
            config.stash[LAB] = Lab(store, launchers, settings.gate, tracking, models, ears)
        return cls(settings, plan, isolation, only, worker=workerinput is not None)

    def pytest_report_header(self) -> list[str]:
        """Versions, device, profile, isolation."""
        found = versions()
        packages = ", ".join(
            f"{name} {found[name]}" for name in ("selectivbench", "torch", "triton")
        )
        fla = f"flash-linear-attention {found['flash-linear-attention']}"
        return [
            f"selectivbench: {packages}, {fla}",
            f"selectivbench: profile {self.plan.profile.name}, "
            f"device {self.plan.mode.device_class(self.plan.device)}, "
            f"isolation {self.isolation}, records in {self.settings.out}",
        ]

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(
        self, module_path: Path, parent: pytest.Collector
    ) -> pytest.Module | None:
        """The bench module holds submissions instead of functions."""
        if module_path != BENCH:
            return None
        module: Benchmark = Benchmark.from_parent(parent, path=module_path)
        module.plan = self.plan
        return module

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep only the node ids that were asked for, where any were."""
        if not self.only:
            return
        kept = [item for item in items if item.nodeid.startswith(self.only)]
        dropped = [item for item in items if not item.nodeid.startswith(self.only)]
        if not kept:
            raise pytest.UsageError(f"no case is called {', '.join(self.only)}")
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            items[:] = kept

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write down what this run is to give, before it gives anything."""
        if session.config.option.collectonly:
            return
        cases = [item for item in session.items if isinstance(item, Case)]
        expected = {case.nodeid: case.job.identity(case.task).stem for case in cases}
        store = session.config.stash[LAB].store
        text = json.dumps(expected, indent=1) + "\n"
        for path in (manifest_path(self.settings.out), self._expected(session.config)):
            store.write_text(path, text)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of pytest-xdist which run it belongs to; it gets arguments, not options."""
        node.workerinput["selectiv_run"] = node.config.option.selectiv_run

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the row that a report carries."""
        row = row_of(report)
        if row is not None:
            self.rows[report.nodeid] = row
        for name, stem in report.user_properties:
            if name == TIMED:
                path = timing_path(self.settings.out, str(stem))
                self.timings[report.nodeid] = Timing.from_json(path.read_text(encoding="utf-8"))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """End the children; a run that looks green must have every record it was to give."""
        if LAB in session.config.stash:
            lab = session.config.stash[LAB]
            lab.close()
            self.troubles += lab.troubles
        if self.worker:
            session.config.workeroutput[TROUBLES] = json.dumps(self.troubles)  # type: ignore[attr-defined]
        if not self.worker and session.exitstatus == pytest.ExitCode.OK and self._missing(session):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what an xdist worker could not track."""
        self.troubles += json.loads(getattr(node, "workeroutput", {}).get(TROUBLES, "[]"))

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        """The table of verdicts, why each case ran or not, and where the records are."""
        if config.option.collectonly:
            return
        found = lines(self.rows.values())
        if found:
            terminalreporter.section("SelectivBench")
            for line in summary.table(found, summary.reference_records()):
                terminalreporter.write_line(line)
            curves = (*summary.curves(found), *summary.losses(found))
            said = (*curves, *summary.needed(found), *summary.reasons(found))
            for line in (*said, *self._runs(config.invocation_params.dir)):
                terminalreporter.write_line(line)
            terminalreporter.write_line(f"records: {self.settings.out}")
        for line in timing_table.table(self.timings.values()):
            terminalreporter.write_line(line)
        for trouble in dict.fromkeys(self.troubles):
            terminalreporter.write_line(f"not tracked: {trouble}", yellow=True)
        for name in self._missing(config):
            terminalreporter.write_line(f"no record: {name}", red=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        """A report may be published; the machine's name is nobody's business."""
        machine_info["node"] = "redacted"

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """This run is over; what the last run expected stays in the manifest."""
        if not self.worker:
            self._expected(config).unlink(missing_ok=True)

    def _expected(self, config: pytest.Config) -> Path:
        """The manifest of this very run: another one may be writing to the same folder."""
        return manifest_path(self.settings.out).with_name(f"run-{config.option.selectiv_run}.json")

    def _runs(self, here: Path) -> list[str]:
        """Where the W&B runs of this session are."""
        session = self.settings.out / SESSION
        stems = {row.stem for row in self.rows.values()}
        made = [m for stem in sorted(stems) if (m := Mirrored.since(session, stem, self.began))]
        return summary.runs(made, here)

    def _stem(self, nodeid: str, expected: str) -> str:
        """Of a case's record: a worker with another model of GPU than expected has one of its own."""
        return self.rows[nodeid].stem if nodeid in self.rows else expected

    def _missing(self, run: pytest.Session | pytest.Config) -> list[str]:
        """Expected cases that gave no record, where the run was not cut short on purpose."""
        config = run.config if isinstance(run, pytest.Session) else run
        path = self._expected(config)
        if config.option.collectonly or not path.is_file():
            return []
        expected = json.loads(path.read_text(encoding="utf-8"))
        return [
            nodeid
            for nodeid, stem in expected.items()
            if not (self.settings.out / f"{self._stem(nodeid, stem)}.json").is_file()
        ]


def _take_arguments(config: pytest.Config, files: Iterable[Path]) -> tuple[str, ...]:
    """Collect the bench module alone, or with the paths that a person gave beside the model.

    An argument such as ``lstm.py::selective_copy-v1[seed1]`` is one of our node ids: it selects a
    case. xdist workers get the rewritten arguments, and the selection through the options.
    """
    names = {file.name for file in files}
    only = list(getattr(config.option, "selectiv_only", ()))
    paths: list[str] = []
    if config.args_source == config.ArgsSource.ARGS:
        for argument in config.args:
            name, colons, _ = argument.partition("::")
            (only if colons and name in names else paths).append(argument)
    config.option.selectiv_only = only
    config.args = [*(path for path in paths if path != str(BENCH)), str(BENCH)]
    return tuple(only)
