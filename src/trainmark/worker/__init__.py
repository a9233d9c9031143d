"""The built-in training programs, one folder a framework; they run inside that framework's own environment.

Nothing here imports the rest of trainmark, and nothing needs more than Python 3.8, the standard library, the
framework and, for real images, numpy and a JPEG decoder. ``start.py`` is the file that is started.
"""
