"""What follows the cases of a run: events, W&B, the curve of a failing case, and troubles."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pytest_selectivbench import followers
from pytest_selectivbench.ears import Ears
from selectivbench.mechanism.asking import Asked, job_of
from selectivbench.tracking.gates import Gates
from selectivbench.tracking.reading import read
from tests.plugin.conftest import records

LITE = ("--selectiv-profile=lite", "--selectiv-steps=2", "--selectiv-seeds=1")


@pytest.fixture(autouse=True)
def no_account(monkeypatch, folder):
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT", "WANDB_ENTITY", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))


@pytest.fixture
def broken_wandb(folder, monkeypatch):
    """A wandb that cannot be imported: quick, and a trouble."""
    (folder / "stub").mkdir()
    (folder / "stub" / "wandb.py").write_text("raise ImportError('half installed')")
    monkeypatch.setenv("PYTHONPATH", str(folder / "stub"))


def test_every_training_leaves_its_events(run, folder):
    run("--selectiv-seeds=1,2")
    followed = read(folder / ".selectivbench" / "records" / "session")
    assert [f.name for f in followed] == [f"linear selective_copy-v1[seed{n}]" for n in (1, 2)]
    for seen, record in zip(followed, records(folder), strict=True):
        assert (seen.state, seen.statuses) == ("over", ("pass",))
        assert [(p.step, p.loss) for p in seen.points] == [
            (p["step"], p["loss"]) for p in record["curve"]
        ]


def test_a_case_whose_process_fails_leaves_them_too(run, folder):
    source = (folder / "linear.py").read_text()
    (folder / "linear.py").write_text(source.replace("self.layer(x)", "1 / 0"))
    run()
    (seen,) = read(folder / ".selectivbench" / "records" / "session")
    assert (seen.state, seen.statuses, seen.points) == ("over", ("error",), ())


def test_a_failing_case_shows_how_its_loss_went(run):
    run(*LITE).stdout.re_match_lines(
        [r"linear selective_copy-v1 seed 1: loss [▁█]{2} \d\.\d{3} to \d\.\d{3}"]
    )


def test_without_a_failure_there_is_no_curve(run):
    run().stdout.no_fnmatch_line("*: loss *")


def test_a_run_with_wandb_says_how_to_send_it_and_does_so_once(run, folder):
    result = run("--selectiv-wandb")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["W&B: kept offline: 1; to send:", "  wandb sync wandb/offline-run-*"]
    )
    result.stdout.no_fnmatch_line("not tracked*")
    (mark,) = (folder / ".selectivbench" / "records" / "session").glob("*.wandb.json")
    assert json.loads(mark.read_text())["project"] == "selectivbench"
    again = run("--selectiv-wandb")  # everything is there: no run, nothing to send
    again.assert_outcomes(passed=1)
    again.stdout.no_fnmatch_line("*wandb sync*")
    assert len(list(folder.glob("wandb/offline-run-*"))) == 1


GATED = """
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.gate = nn.Linear(spec.d_model, spec.d_model)

    def forward(self, x):
        return x * self.gate(x).sigmoid()


def probe(module, x):
    {body}
"""
SHOWS = "return {'gate': module.gate(x).sigmoid()}"


def gates_of(folder):
    return list((folder / ".selectivbench" / "records" / "session").glob("*.gates.npz"))


@pytest.mark.parametrize("more", [[], ["--selectiv-save"]])
def test_the_gates_of_a_trained_model_are_heard_for_its_run(run, folder, broken_wandb, more):  # noqa: ARG001
    (folder / "linear.py").write_text(GATED.format(body=SHOWS))
    run("--selectiv-wandb", *more).assert_outcomes(passed=1)
    (path,) = gates_of(folder)
    gates = Gates.read(path)
    assert gates.arrays["0/gate/trace"].shape == (4, 20)
    assert gates.kinds[:2] == ("symbol", "filler")
    (record,) = records(folder)
    assert record["probe"] is None  # a picture is no part of the result
    run("--selectiv-rerun").assert_outcomes(passed=1)
    assert not gates_of(folder)  # they are not those of the model that is there now


def test_without_wandb_nobody_listens(run, folder):
    (folder / "linear.py").write_text(GATED.format(body=SHOWS))
    run()
    assert not gates_of(folder)


def test_a_layer_without_gates_is_no_trouble(run, folder, broken_wandb):  # noqa: ARG001
    result = run("--selectiv-wandb")
    result.stdout.no_fnmatch_line("not tracked: gates*")
    assert not gates_of(folder)


UNSENT = {
    "no tensor": "    def get_extra_state(self):\n        return 'words'\n",
    "too large": "    def __setattr__(self, name, value):\n        super().__setattr__(name, value)\n"
    "        if name == 'gate':\n            self.register_buffer('mask', torch.zeros(3000, 3000))\n",
    "broken": "    def state_dict(self, *_, **__):\n        1 / 0\n",
}


@pytest.mark.usefixtures("broken_wandb")
@pytest.mark.parametrize("why", UNSENT)
def test_a_model_whose_state_cannot_be_had_is_judged_as_without_wandb(run, folder, why):
    source = GATED.format(body=SHOWS).replace("    def forward", f"{UNSENT[why]}\n    def forward")
    (folder / "linear.py").write_text(source)
    run("--selectiv-wandb").assert_outcomes(passed=1)
    (tracked,) = records(folder)
    assert not gates_of(folder)
    run("--selectiv-rerun")
    (alone,) = records(folder)
    same = ("status", "accuracy", "curve", "saved_numbers", "validity")
    assert {name: tracked[name] for name in same} == {name: alone[name] for name in same}


@pytest.mark.usefixtures("broken_wandb")
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("1 / 0", "*ZeroDivisionError*"),
        ("while True: pass", "*in phase 'probe' before its deadline*"),
    ],
)
def test_a_probe_that_fails_costs_a_picture_and_one_line(run, folder, monkeypatch, body, said):
    monkeypatch.setattr("selectivbench.mechanism.glimpse.DEADLINE", 1.0)
    (folder / "linear.py").write_text(GATED.format(body=body))
    result = run("--selectiv-wandb", "--selectiv-seeds=1,2", "--selectiv-isolate=process")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"not tracked: gates of linear: {said}"])
    assert not gates_of(folder)


@pytest.mark.usefixtures("broken_wandb")
def test_a_probe_that_shows_too_much_costs_a_picture_and_one_line(run, folder, monkeypatch):
    monkeypatch.setattr("selectivbench.mechanism.glimpse.LARGEST", 1 << 10)
    (folder / "linear.py").write_text(GATED.format(body=SHOWS))
    result = run("--selectiv-wandb")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["not tracked: gates of linear: signals: got *"])
    assert not gates_of(folder)


@pytest.mark.parametrize(
    ("of", "status", "heard"), [(1, "fail", 1), (2, "fail", 0), (1, "crash", 0)]
)
def test_only_the_model_of_a_case_that_came_to_an_end_is_heard(
    folder, monkeypatch, a_record, of, status, heard
):
    """A training that was interrupted leaves a model; the next one that fails has none of its own."""
    job = job_of(Asked(folder / "linear.py", "selective_copy", profile="smoke", device="cpu"))
    asked = []
    monkeypatch.setattr(
        "pytest_selectivbench.ears.glimpse", lambda *given: asked.append(given) or Gates({}, (), ())
    )
    ears = Ears(folder, SimpleNamespace(of=lambda _: None))
    ears.remember(replace(job.identity(job.tasks[0]), seed=of), "state")
    for _ in range(2):  # what was heard is forgotten
        ears.hear(job, replace(a_record, status=status))
    assert (len(asked), ears.troubles) == (heard, ())


def test_gates_of_a_saved_model_are_heard_too(run, folder, broken_wandb):  # noqa: ARG001
    (folder / "linear.py").write_text(GATED.format(body=SHOWS))
    run("--selectiv-save")
    run("--selectiv-from-saved", "--selectiv-wandb", "--selectiv-rerun").assert_outcomes(passed=1)
    assert len(gates_of(folder)) == 1


def test_a_failing_wandb_is_one_line_and_no_failure(run, folder, broken_wandb):  # noqa: ARG001
    result = run("--selectiv-wandb=mine", "--selectiv-seeds=1,2")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["not tracked: W&B: half installed; 2 not mirrored, *"])
    assert len(records(folder)) == 2


def test_a_workers_troubles_are_said_too(run, broken_wandb):  # noqa: ARG001
    result = run("--selectiv-wandb", "-n", "1", subprocess=True)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["not tracked: W&B: half installed; 1 not mirrored, *"])


@pytest.mark.parametrize(
    ("arguments", "project"),
    [
        (["--selectiv-wandb=mine"], "mine"),
        (["--selectiv-wandb"], "selectivbench"),
        (["-o", "selectiv_wandb=kept"], "kept"),
        ([], None),
    ],
)
def test_the_project(run, monkeypatch, arguments, project):
    asked = []

    class Spy:
        name = "W&B"

        def __init__(self, name, _):
            asked.append(name)

        def follow(self, _):
            raise OSError("no follower")

        def close(self):
            pass

    monkeypatch.setattr("pytest_selectivbench.followers.Wandb", Spy)
    run(*arguments)
    assert asked == ([project] if project else [])


def test_the_environments_project_is_the_default(run, monkeypatch, broken_wandb, folder):  # noqa: ARG001
    asked = []
    monkeypatch.setenv("WANDB_PROJECT", "ours")
    monkeypatch.setattr(
        followers, "Wandb", lambda name, folder: asked.append(name) or followers.Events(folder)
    )
    run("--selectiv-wandb")
    assert asked == ["ours"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--selectiv-wandb", "tests"],
        ["--selectiv-wandb", "linear.py::selective_copy-v1[seed1]"],
        ["--selectiv-wandb=a/b"],
    ],
)
def test_a_path_is_no_project(run, arguments):
    result = run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--selectiv-wandb: got *write --selectiv-wandb=PROJECT*"])


def test_wandb_that_is_not_installed_is_said_with_the_remedy(run, monkeypatch):
    monkeypatch.setattr("pytest_selectivbench.followers.find_spec", lambda _: None)
    result = run("--selectiv-wandb")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*wandb: got 'no such package', *pip install wandb.*"])
