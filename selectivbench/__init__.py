"""SelectivBench: does a sequence model keep what matters and ignore what does not?"""

__version__ = "0.1.0"
