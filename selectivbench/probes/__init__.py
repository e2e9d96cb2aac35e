"""What the gates of a trained layer do, heard and replaced while it runs: the child's side.

A layer is known by its *type* (fla's layers, torch's LSTM, GRU and attention), never by the name of a
submission; a layer of another type shows itself through the submission's ``probe(module, x)``.
"""
