"""MaxText and MaxDiffusion."""
