"""The built-in training programs; they run inside a framework's own environment.

``core`` has the loop, the verification and the contract of a backend, ``tasks`` a folder for each kind of training,
``backends`` a folder for each framework, ``models`` a module for each framework and task. (PyTorch still has a folder
next to them.) Nothing here imports the rest of trainmark, and nothing needs more than Python 3.10, the standard
library, the framework and, for synthetic and real data, numpy and a decoder.
``start.py`` is the file that is started.
"""
