"""PaddlePaddle: its environment, its smoke test, its part of the built-in card."""
