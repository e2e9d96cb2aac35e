"""Data without the harness: files, drawings, facts, the torch adapter, the speed table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch

from selectivbench import export as export_module
from selectivbench import speed
from selectivbench.batch import PAD, Encoding
from selectivbench.compiled import cache_folder, kernels
from selectivbench.errors import UsageError
from selectivbench.export import dataset_of, export, golden_hash, info, show, show_svg
from selectivbench.tasks import TASKS
from selectivbench.torch_data import TorchSplit, loader


@pytest.mark.parametrize("task", [task.name for task in TASKS])
def test_npz_holds_the_bytes_of_the_batch(task, tmp_path):
    path = export(task, "smoke", None, 1, "train", tmp_path / "sub" / "data.bin", "npz", count=20)
    batch = dataset_of(task, "smoke").batch("train", range(20))
    with np.load(path) as file:
        assert sorted(file) == ["element", "lengths", "noise_seeds", "targets", "tokens"]
        for name in ("tokens", "targets", "element", "noise_seeds"):
            assert (file[name] == getattr(batch, name)).all()
            assert file[name].dtype == getattr(batch, name).dtype
        assert (file["lengths"] == (batch.tokens != PAD).sum(axis=1)).all()


@pytest.mark.parametrize("task", ["noisy_gaps", "selective_copy"])
def test_parquet_has_a_row_for_each_sample(task, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = export(task, "smoke", "base", 2, "test", tmp_path / "data.parquet", "parquet")
    batch = dataset_of(task, "smoke", seed=2).batch("test", range(64))
    rows = parquet.read_table(path).to_pylist()
    assert len(rows) == 64
    for i, row in enumerate(rows):
        live = batch.tokens[i] != PAD
        assert row["tokens"] == batch.tokens[i][live].tolist()
        assert row["targets"] == batch.targets[i][live].tolist()
        assert row["element"] == batch.element[i][live].tolist()
        assert row.get("noise_seed") == (
            int(batch.noise_seeds[i]) if task == "noisy_gaps" else None
        )


def test_parquet_without_pyarrow_names_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="pip install pyarrow"):
        export("mqar", "smoke", None, 1, "test", tmp_path / "x", "parquet")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "npy"}, "did you mean 'npz'"),
        ({"task": "noisy_gap"}, "did you mean 'noisy_gaps'"),
        ({"profile": "smok"}, "did you mean 'smoke'"),
        ({"variant": "bass"}, "did you mean 'base'"),
        ({"split": "trian"}, "did you mean 'train'"),
        ({"count": 10_000}, "train index: got 9999"),
    ],
)
def test_bad_names_are_refused(change, words, tmp_path):
    arguments = {"task": "noisy_gaps", "profile": "smoke", "variant": None, "seed": 1}
    arguments |= {"split": "train", "out": tmp_path / "x", **change}
    with pytest.raises(UsageError, match=words):
        export(**arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("task", [task.name for task in TASKS])
def test_show_draws_the_same_steps_as_text_and_picture(task):
    text = show(task, "smoke", steps=12)
    lines = [line.split() for line in text.splitlines()]
    assert [line[0] for line in lines] == ["element", "step", "target"]
    assert {len(line) for line in lines} == {13}
    root = ET.fromstring(show_svg(task, "smoke", steps=12))
    texts = [node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[::2] == ["" if step == "." else step for step in lines[1][1:]]
    assert texts[1::2] == ["" if target == "-" else target for target in lines[2][1:]]


def test_info_is_plain_and_complete():
    facts = json.loads(json.dumps(info("noisy_gaps", "lite")))
    assert facts["task"] == "noisy_gaps-v2"
    assert facts["variant"] == "long"
    assert facts["classes"] == facts["grammar"]["states"] - len(facts["grammar"]["unreachable"])
    assert set(facts["levels"]) == {"test-gap14"}
    assert facts["hash"] == golden_hash(dataset_of("noisy_gaps", "lite"))
    assert "grammar" not in info("mqar", "smoke")


def test_a_changed_byte_changes_the_hash(monkeypatch):
    data = dataset_of("memorization", "smoke")
    before = golden_hash(data)
    original = data.batch

    def changed(split, indices):
        batch = original(split, indices)
        targets = batch.targets.copy()
        targets[-1, -1] ^= split == "audit"
        return type(batch)(batch.tokens, targets, batch.element, batch.noise_seeds)

    monkeypatch.setattr(data, "batch", changed)
    assert golden_hash(data) != before


def test_torch_samples_are_those_of_the_batch():
    data = dataset_of("noisy_gaps", "smoke")
    split = TorchSplit(data, "test")
    batch = data.batch("test", [3, 1])
    together = split.__getitems__([3, 1])
    assert together["inputs"].dtype == torch.float32
    assert together["targets"].dtype == together["element"].dtype == torch.int64
    expected = data.encoding.encode(batch.tokens, batch.noise_seeds)
    assert (together["inputs"].numpy() == expected).all()
    alone = split[3]
    steps = alone["inputs"].shape[0]
    assert (alone["inputs"] == together["inputs"][0, :steps]).all()
    assert (alone["targets"] == together["targets"][0, :steps]).all()
    assert len(split) == data.sizes["test"]


@pytest.mark.parametrize("encoding", [Encoding("token_ids", 1, 9), Encoding.dense(9, 16, snr=10.0)])
def test_another_encoding_may_be_asked_for(encoding):
    data = dataset_of("noisy_gaps", "smoke")
    batch = data.batch("test", [3, 1])
    found = TorchSplit(data, "test", encoding).__getitems__([3, 1])["inputs"]
    assert (found.numpy() == encoding.encode(batch.tokens, batch.noise_seeds)).all()
    assert found.shape[-1] == encoding.n_inputs


def test_workers_and_shuffling_change_no_sample():
    """The published loader gave the same gaps to all workers; here a sample has an address."""
    data = dataset_of("distractors", "smoke")

    def samples(**settings):
        found = []
        for batch in loader(data, "validation", 16, **settings):
            for row, element in zip(batch["inputs"], batch["element"], strict=True):
                found.append(row[element >= 0].numpy().tobytes())
        return found

    alone = samples()
    assert len(set(alone)) == 64
    assert samples(workers=2) == alone
    torch.manual_seed(0)
    shuffled = samples(shuffle=True)
    assert shuffled != alone
    assert sorted(shuffled) == sorted(alone)


@pytest.mark.parametrize("snr", [0.5, 4.0, 100.0])
def test_dense_noise_has_the_ratio_it_claims(snr):
    encoding = Encoding.dense(30, 32, snr)
    tokens = np.random.default_rng(0).integers(30, size=(20, 200)).astype(np.int16)
    seeds = np.arange(20, dtype=np.uint64)
    clean = Encoding.dense(30, 32).encode(tokens, seeds)
    noise = encoding.encode(tokens, seeds) - clean
    assert (clean**2).mean() / noise.var() == pytest.approx(snr, rel=0.03)


@pytest.mark.parametrize(
    ("snr", "words"), [(0.0, "signal-to-noise"), (float("nan"), "signal-to-noise")]
)
def test_a_bad_ratio_is_refused(snr, words):
    with pytest.raises(UsageError, match=words):
        Encoding.dense(3, 4, snr)


def test_noise_without_seeds_is_refused():
    with pytest.raises(UsageError, match="noise seeds: got 0, allowed: 1"):
        Encoding("one_hot", 3, 3, noise=0.1).encode(
            np.zeros((1, 2), np.int16), np.empty(0, np.uint64)
        )


def test_one_hot_narrower_than_its_symbols_is_refused():
    with pytest.raises(UsageError, match="inputs of one_hot: got 2"):
        Encoding("one_hot", 2, 3)


def test_uses_without_torch_import_no_torch_and_compile_nothing_yet():
    code = (
        "import sys; from selectivbench.tasks import get_task; import selectivbench.export;"
        "assert not {'torch', 'numba', 'pandas', 'pyarrow'} & set(sys.modules);"
        "get_task('noisy_gaps').dataset('smoke', 'base', 1).batch('train', range(4));"
        "assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-W", "error", "-c", code]).returncode == 0


def test_the_kernel_cache_lies_with_the_user_and_falls_back(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = cache_folder()
    assert folder.is_relative_to(tmp_path)
    assert folder.name.startswith("kernels-")
    monkeypatch.setattr("os.access", lambda path, _mode: not str(path).startswith(str(tmp_path)))
    assert cache_folder() is None or not cache_folder().is_relative_to(tmp_path)
    assert kernels() is kernels()


def test_a_first_call_says_that_it_compiles(tmp_path):
    code = "from selectivbench.compiled import kernels; kernels(); kernels()"
    settings = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    settings.pop("NUMBA_CACHE_DIR", None)
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=settings)
        for _ in range(2)
    ]
    assert runs[0].stderr.count("\n") == 1
    assert f"cached in {tmp_path}" in runs[0].stderr
    assert runs[1].stderr == ""


def test_the_speed_table_has_every_row(monkeypatch):
    monkeypatch.setattr(speed, "SEQUENCES", 2_000)
    lines = speed.table(share=0.01).splitlines()
    assert lines[0].startswith("| what | wall | CPU | limit")
    named = " ".join(lines)
    for words in (
        "first call",
        "grammar, ambiguity 40",
        "reference-exact",
        "native",
        "batch of 64",
    ):
        assert words in named
    assert all(line.count("|") == 6 for line in lines)


def test_the_module_lists_its_formats():
    assert export_module.FORMATS == ("npz", "parquet")
