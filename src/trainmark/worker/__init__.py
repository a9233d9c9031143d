"""The built-in training programs; they run inside a framework's own environment.

``core`` is what all of them share, ``tasks`` has a folder for each kind of training, and every other folder is a
framework, with a folder in it for each task that it trains. Nothing here imports the rest of trainmark, and nothing
needs more than Python 3.8, the standard library, the framework and, for made-up and real data, numpy and a decoder.
``start.py`` is the file that is started.
"""
