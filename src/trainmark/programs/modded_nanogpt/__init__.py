"""modded-nanogpt."""
