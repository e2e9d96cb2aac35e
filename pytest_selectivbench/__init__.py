"""The pytest plugin: one test for each (submission, task, variant, seed)."""
