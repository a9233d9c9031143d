"""What can be changed in a built-in worker so that it keeps running and its number is another one's, by framework.

A module has ``LATER``: changes of a training, made when its third step begins; and ``BEFORE``: changes of what a
training is built of.
"""
