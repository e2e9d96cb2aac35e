"""The limits of a child agree with those of the warden that watches it."""

from __future__ import annotations

import subprocess
import sys

FULL = """
import mmap, os, socket, sys, time
from selectivbench.sandbox import limits
from selectivbench.sandbox.watching import LOOK, Watch

MIB = 1 << 20
limits.memory_allowance = lambda: 256 * MIB
mapped = mmap.mmap(-1, 64 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # as libraries are
reading, writing = os.pipe()
lifeline, ours = socket.socketpair()
child = os.fork()
if not child:
    limits.limit("cpu", limits.tasks_allowed(own_user=False))
    for page in range(0, len(mapped), 4096):
        mapped[page] = 1
    taken = []
    try:
        while True:
            taken.append(b"x" * MIB)
    except MemoryError:
        time.sleep(3 * LOOK)  # the watch has had its look
    os._exit(7)
os.close(writing)
seen = Watch(child, lifeline, reading).until_all_are_gone()
print(seen["status"], seen["cause"] or "was left alone", seen["peak_memory"] > 150 * MIB)
"""


def test_a_child_hears_that_memory_is_out_before_it_is_killed_for_it() -> None:
    """Else torch could not go on in smaller pieces: what was mapped early counts when it is used."""
    command = [sys.executable, "-c", FULL]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=120)
    assert done.stdout.split() == ["7", "was", "left", "alone", "True"]


LIBRARIES = """
import mmap
from selectivbench.sandbox import limits

GIB = 1 << 30
limits.memory_allowance = lambda: GIB
mapped = mmap.mmap(-1, 4 * GIB, prot=mmap.PROT_READ)
limits.limit("cpu", limits.tasks_allowed(own_user=False))
print(len(bytes(GIB // 4)))
"""


def test_libraries_that_nobody_touches_leave_room() -> None:
    """A torch built for CUDA maps more than a small machine has."""
    command = [sys.executable, "-c", LIBRARIES]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=120)
    assert int(done.stdout) == 1 << 28
