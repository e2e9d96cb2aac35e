"""After ``warm_up`` no submission of ours compiles a kernel: from level 2 on it could not keep it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SUBMISSIONS = Path(__file__).parents[2] / "submissions"
# Trains and predicts one step with each layer of fla, in a process whose kernels are warm.
LOOK = """
import json, sys, warnings
from pathlib import Path
import torch
warnings.simplefilter("ignore")
import fla.layers
from numba.core.dispatcher import Dispatcher
from selectivbench import fla_cpu
from selectivbench.backbone import ModelSpec, build
from selectivbench.profiles import get_profile

torch.set_num_threads(1)
fla_cpu.enable()
fla_cpu.warm_up()
modules = [m for name, m in sys.modules.items() if name.startswith("selectivbench.fla_cpu")]
kernels = {k for m in modules for k in vars(m).values() if isinstance(k, Dispatcher)}
kinds = lambda: sum(len(k.signatures) for k in kernels)
size = get_profile("lite").plan("").model
found = {}
for path in map(Path, sys.argv[1:]):
    names = {"__name__": path.stem}
    exec(compile(path.read_text(), str(path), "exec"), names)
    spec = ModelSpec(size.d_model, size.n_layers, 0, 64, size.n_heads, 12, 8)
    model = build("mixer", names["Mixer"], spec, size)
    before = kinds()
    model(torch.randn(4, 64, 12)).square().mean().backward()
    model.eval()
    with torch.no_grad():
        model(torch.randn(3, 40, 12))
    found[path.stem] = kinds() - before
print(json.dumps([len(kernels), found]))
"""


def test_warm_up_covers_every_submission() -> None:
    files = [p for p in sorted(SUBMISSIONS.glob("*.py")) if "from fla" in p.read_text()]
    assert len(files) >= 13
    done = subprocess.run(
        [sys.executable, "-c", LOOK, *map(str, files)], capture_output=True, text=True, check=True
    )
    kernels, found = json.loads(done.stdout.splitlines()[-1])
    assert kernels >= 15
    assert found == dict.fromkeys((path.stem for path in files), 0)
