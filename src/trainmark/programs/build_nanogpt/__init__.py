"""build-nanogpt."""
