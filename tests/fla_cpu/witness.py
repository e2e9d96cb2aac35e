"""Runs cases on fla's own kernels and saves the results: `witness.py DEVICE OUT CASE...`.

On "interpreter" the Triton kernels run in Triton's interpreter on CPU tensors (Mamba and Mamba-2
have no Triton scan; there it is fla's own torch code), on "cuda" they are compiled. A process of
its own, because Triton reads TRITON_INTERPRET when fla is imported; started with `python -O`,
because two of fla's ops forbid float32 by an assertion.
"""

from __future__ import annotations

import os
import sys
import time

DEVICE = sys.argv[1] if __name__ == "__main__" else "cuda"
if DEVICE == "interpreter":
    os.environ["TRITON_INTERPRET"] = "1"
    import interpreter_shim  # noqa: F401
import layer_cases  # noqa: E402
import torch  # noqa: E402


def main(out: str, names: list[str]) -> None:
    torch.set_num_threads(1)
    device = "cpu" if DEVICE == "interpreter" else DEVICE
    results = {}
    for name in names:
        layer, length, dtype, gate = name.split(":")
        case = layer_cases.Case(layer, int(length), dtype, float(gate))
        start = time.perf_counter()
        try:
            results[str(case)] = layer_cases.run(case, device)
        except Exception as error:  # the test that asked for this case reports it
            results[str(case)] = f"{type(error).__name__}: {error}"
        print(f"{case}: {time.perf_counter() - start:.1f} s", flush=True)
    torch.save(results, out)


if __name__ == "__main__":
    main(sys.argv[2], sys.argv[3:])
