"""Sweeps: many trainings from one file, over many machines, none of them twice.

A sweep file is expanded into cells (``file``, ``grid``), an engine carries cells to processes
(``engines``), ``drive`` keeps it busy, and a folder holds one record a cell (``folder``).
"""
