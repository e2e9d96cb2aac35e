"""The recipe for SLURM in docs/scale.md: its syntax, and its command on a cluster of one node."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from selectivbench.sweep import commands, file
from selectivbench.sweep.folder import Folder
from tests.sweep.conftest import TINY

SCALE = Path(__file__).parents[2] / "docs" / "scale.md"
OWN_PROCESSES = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
"""``ray symmetric-run`` ends with ``ray stop``, which ends every Ray that it sees."""
PROGRAMS = {
    "ray": "from ray.scripts.scripts import main; main()",
    "selectivbench": "import sys; from selectivbench.cli import main; sys.exit(main())",
}


def recipe() -> str:
    (script,) = (
        part.partition("```")[0]
        for part in SCALE.read_text(encoding="utf-8").split("```bash\n")[1:]
        if "#SBATCH" in part
    )
    return script


def test_the_script_is_bash() -> None:
    done = subprocess.run(["bash", "-n"], input=recipe(), text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both programs as they are tested, whatever is installed; Ray's files apart from others'."""
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    (programs := tmp_path / "bin").mkdir()
    for name, code in PROGRAMS.items():
        path = programs / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -c {shlex.quote(code)} "$@"\n')
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # 15 starves them beside other work
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # or Ray writes a token into our home
    return programs


def words(**values: str) -> list[str]:
    """The command of the recipe, with values in the place of its variables and files."""
    _, _, command = recipe().replace("\\\n", " ").partition("srun ")
    for old, new in values.items():
        assert old in command
        command = command.replace(old, new)
    return shlex.split(command)


@pytest.mark.full
def test_its_command_runs_a_sweep_and_a_requeue_finds_it_done(
    environment: Path,  # noqa: ARG001
    sweep_file: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if subprocess.run([*OWN_PROCESSES, "true"], capture_output=True).returncode:
        pytest.skip("no process namespace of our own to be had here")
    path, out = sweep_file(TINY.replace("seeds = [1, 2]", "seeds = [1]")), tmp_path / "out"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = words(
        **{"$head:6379": f"127.0.0.1:{port}", "$SLURM_JOB_NUM_NODES": "1"},
        **{"sweeps/task2.toml": str(path), "/shared/task2": str(out), "--gpus 0.25": "--cpus 0.5"},
    )
    with tempfile.TemporaryDirectory(prefix="ray") as short:  # the path of a socket has 107 letters
        monkeypatch.setenv("RAY_TMPDIR", short)
        for now in ("2 of them now", "0 of them now"):
            done = subprocess.run(
                [*OWN_PROCESSES, *command], capture_output=True, text=True, timeout=600
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert f"2 cells done in {out}; {now}." in done.stdout
    sweep = file.read(path)
    ground = commands.ground_of(sweep, out)
    assert set(Folder(ground.root).known().values()) <= {"pass", "fail"}
    assert len(Folder(ground.root).known()) == 2
