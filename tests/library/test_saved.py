"""Saved models: found by the key of their training, whole, finite."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save

from selectivbench.errors import UsageError
from selectivbench.record import Identity, Record
from selectivbench.sandbox.states import State
from selectivbench.saved import Saved, SavedModels


def state(value: float = 0.5, dtype: torch.dtype = torch.float32) -> State:
    tensor = torch.full((2, 3), value, dtype=dtype)
    return State.read(np.frombuffer(save({"weight": tensor}), dtype=np.uint8))


@pytest.fixture
def models(tmp_path: Path) -> SavedModels:
    return SavedModels(tmp_path / "models")


@pytest.fixture
def identity(a_record: Record) -> Identity:
    return a_record.identity


def test_a_written_model_is_found_again(models: SavedModels, a_record: Record) -> None:
    identity = a_record.identity
    assert not models.has(identity)
    path = models.write(identity, Saved(state(), a_record))
    assert path.name == f"{identity.key}.safetensors"
    assert models.has(identity)
    found = models.find(identity)
    assert (found.state.numbers, found.training) == (6, a_record)
    assert not list(models.folder.glob("*.tmp"))


def test_a_bare_safetensors_file_is_as_good(models: SavedModels, identity: Identity) -> None:
    models.folder.mkdir()
    models.path(identity).write_bytes(state().raw.tobytes())
    found = models.find(identity)
    assert (found.state.numbers, found.training) == (6, None)


def test_what_is_written_is_plain_safetensors(models: SavedModels, a_record: Record) -> None:
    from safetensors.torch import load_file

    path = models.write(a_record.identity, Saved(state(0.25), a_record))
    assert load_file(path)["weight"].tolist() == [[0.25] * 3] * 2


def test_a_missing_model_is_one_sentence(models: SavedModels, identity: Identity) -> None:
    with pytest.raises(UsageError, match=r"saved model of lstm on selective_copy-v1") as caught:
        models.find(identity)
    assert f"{identity.key}.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_of_another_budget_is_named(models: SavedModels, a_record: Record) -> None:
    other = replace(a_record.identity, budget_digest="c" * 24)
    models.write(other, Saved(state(), replace(a_record, identity=other)))
    with pytest.raises(UsageError, match=rf"{other.key}.safetensors differs in budget_digest"):
        models.find(a_record.identity)
    with pytest.raises(UsageError) as caught:  # another seed's model is no near one
        models.find(replace(a_record.identity, seed=9))
    assert "differs" not in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_none_is_refused(
    models: SavedModels, identity: Identity, dtype: torch.dtype, value: float
) -> None:
    models.write(identity, Saved(state(value, dtype)))
    with pytest.raises(UsageError, match="NaN or infinity in it"):
        models.find(identity)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("value", [0.0, -1.5, 65_000.0])
def test_ordinary_numbers_are_finite(dtype: torch.dtype, value: float) -> None:
    assert state(value, dtype).finite


@pytest.mark.parametrize("cut", [0, 5, 20, -1])
def test_a_torn_file_is_refused(models: SavedModels, identity: Identity, cut: int) -> None:
    models.folder.mkdir()
    models.path(identity).write_bytes(state().raw.tobytes()[:cut])
    with pytest.raises(UsageError, match=r"saved model: got .* allowed: a whole one; remove it"):
        models.find(identity)


def test_a_file_under_a_strangers_name_is_refused(models: SavedModels, a_record: Record) -> None:
    other = replace(a_record.identity, seed=2)
    models.write(other, Saved(state(), a_record))
    with pytest.raises(UsageError, match="its identity does not belong to its file name"):
        models.find(other)


def test_a_folder_that_cannot_be(tmp_path: Path, identity: Identity) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="a disk with room, and rights"):
        SavedModels(tmp_path / "file" / "models").write(identity, Saved(state()))


def test_labels_leave_the_numbers_alone() -> None:
    plain = state(0.125)
    assert plain.labels == {}
    labelled = plain.labelled({"a": "é", "b": "{}"})
    assert labelled.labels == {"a": "é", "b": "{}"}
    assert State.read(labelled.raw).numbers == plain.numbers
    assert labelled.labelled({"c": ""}).labels == {"c": ""}
    assert labelled.raw[-24:].tobytes() == plain.raw[-24:].tobytes()
