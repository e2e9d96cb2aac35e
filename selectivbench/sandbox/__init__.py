"""Where submissions run: controller side, child side, and the protocol between them.

The controller (controller.py) holds the answers and has no torch; the child (child.py) has the
submission and sees training data and unlabelled inputs only. On CPU children are forked from a
server that has imported torch and fla once (server.py); on CUDA each is a fresh interpreter.
"""
