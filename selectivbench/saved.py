"""Trained models as files: one for each training, named by the key of its identity.

``KEY.safetensors`` holds every tensor of the model and, in its header, what was known when training
ended. A bare safetensors file of that name, without the latter, is as good.
"""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from selectivbench import atomic
from selectivbench.errors import ProtocolError, RecordError, UsageError, explain
from selectivbench.record import Identity, Record
from selectivbench.sandbox.states import State

FOLDER = "models"
"""Beside the records of a folder."""
LARGEST_HEADER = 1 << 24


@dataclass(frozen=True)
class Saved:
    """A trained model; ``training``: curve and times of its training, None beside a bare file."""

    state: State
    training: Record | None = None


@dataclass(frozen=True)
class SavedModels:
    """The saved models of one folder."""

    folder: Path

    def path(self, identity: Identity) -> Path:
        """Where the model of a training is or would be; ``identity``: of its trained task's record."""
        return self.folder / f"{identity.key}.safetensors"

    def has(self, identity: Identity) -> bool:
        """Whether the model of a training is there."""
        return self.path(identity).is_file()

    def find(self, identity: Identity) -> Saved:
        """The model of a training.

        UsageError where there is none, or where the file holds no model of finite numbers.
        """
        path = self.path(identity)
        try:
            raw = np.frombuffer(path.read_bytes(), dtype=np.uint8)
        except OSError as error:
            raise UsageError(self._missing(identity)) from error
        try:
            state = State.read(raw)
            training = _training(state, identity)
        except (ProtocolError, RecordError) as error:
            raise UsageError(_broken(path, str(error))) from error
        if not state.finite:
            raise UsageError(_broken(path, "NaN or infinity in it"))
        return Saved(state, training)

    def write(self, identity: Identity, saved: Saved) -> Path:
        """Keep a model; a reader sees it whole or not at all."""
        path, state = self.path(identity), saved.state
        if saved.training is not None:
            state = state.labelled({"training": saved.training.to_json()})
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            atomic.write(path, state.raw.tobytes())
        except OSError as error:
            got = f"{path} ({error.strerror})"
            raise UsageError(explain("saved model", got, "a disk with room, and rights")) from error
        return path

    def _missing(self, identity: Identity) -> str:
        what = f"{identity.entry} on {identity.task} ({identity.variant}, seed {identity.seed})"
        remedy = "--selectiv-save keeps it when it is trained" + self._nearest(identity)
        return explain(
            f"saved model of {what}", f"none in {self.folder}", self.path(identity).name, remedy
        )

    def _nearest(self, identity: Identity) -> str:
        """What a model of the same case differs in, where there is one."""
        same = ("entry", "task", "variant", "profile", "seed")
        for path in sorted(self.folder.glob("*.safetensors")):
            other = _identity(path)
            if other and all(getattr(other, f) == getattr(identity, f) for f in same):
                changed = [f for f, v in asdict(identity).items() if getattr(other, f) != v]
                return f"; {path.name} differs in {', '.join(changed)}"
        return ""


def _training(state: State, identity: Identity) -> Record | None:
    """The record in a model's header, which must be of the training that was asked for."""
    text = state.labels.get("training")
    if text is None:
        return None
    record = Record.from_json(text)
    if record.identity != identity:
        raise RecordError("its identity does not belong to its file name")
    return record


def _identity(path: Path) -> Identity | None:
    """Whose model a file says it is, from its header alone."""
    try:
        with path.open("rb") as file:
            head = np.frombuffer(file.read(LARGEST_HEADER), dtype=np.uint8)
        return Record.from_json(State(head, 0).labels.get("training", "")).identity
    except (OSError, ValueError, struct.error, RecordError):
        return None  # not ours to explain


def _broken(path: Path, why: str) -> str:
    return explain("saved model", f"{path.name} ({why})", "a whole one", "remove it, train again")
