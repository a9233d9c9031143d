"""An answer for the log of an unknown program: the lines that repeat, the fields by their words, and a proposed format.

A guess is never ``ok``: it states its assumptions, the flags that would replace them, and the proposed description.
"""
