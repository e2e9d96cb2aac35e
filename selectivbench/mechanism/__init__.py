"""What the gates of a trained model do on each kind of step, and what becomes of its answers when they
are held still: measured by the controller from the signals that a child sends.
"""
