"""``--selectiv-save`` and ``--selectiv-from-saved``."""

from __future__ import annotations

from tests.plugin.conftest import records

MODELS = ".selectivbench/records/models"


def test_a_kept_model_gives_the_same_figures_without_training(run, folder):
    run("--selectiv-save").assert_outcomes(passed=1)
    (model,) = (folder / MODELS).glob("*.safetensors")
    (trained,) = records(folder)
    again = run("--selectiv-from-saved", "--selectiv-rerun")
    again.assert_outcomes(passed=1)
    again.stdout.fnmatch_lines(["evaluated 1 (asked to run again): linear *"])
    (evaluated,) = records(folder)
    assert (trained["from_saved"], evaluated["from_saved"]) == (False, True)
    for figure in ("accuracy", "score", "evaluations", "curve", "parameters"):
        assert evaluated[figure] == trained[figure]
    assert evaluated["seconds"]["fit"] == trained["seconds"]["fit"]
    assert model.is_file()


def test_without_the_option_no_model_is_kept(run, folder):
    run()
    assert not (folder / MODELS).exists()


def test_a_record_without_its_model_is_trained_again(run, folder):
    run()
    run("--selectiv-save").stdout.fnmatch_lines(["trained 1 (its model was not kept): *"])
    run("--selectiv-save").stdout.fnmatch_lines(["re-used 1 *"])
    assert len(records(folder)) == 1


def test_a_missing_model_is_a_failed_case_with_one_sentence(run, folder):
    result = run("--selectiv-from-saved")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["saved model of linear on selective_copy-v1 (base, seed 1): got *"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    assert records(folder) == []


def test_one_model_serves_every_task_of_a_training(run, folder):
    tasks = "--selectiv-tasks=noisy_gaps,gap_extrapolation"
    run(tasks, "--selectiv-save").assert_outcomes(passed=2)
    assert len(list((folder / MODELS).glob("*"))) == 1


def test_a_bare_model_takes_its_curve_from_the_last_record(run, folder):
    run("--selectiv-save")
    (model,) = (folder / MODELS).glob("*")
    before = records(folder)[0]["curve"]
    from safetensors.torch import load, save

    model.write_bytes(save(load(model.read_bytes())))  # without what the header said
    run("--selectiv-from-saved", "--selectiv-rerun").assert_outcomes(passed=1)
    assert records(folder)[0]["curve"] == before
