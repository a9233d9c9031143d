"""NVIDIA Tacotron 2 and WaveGlow."""
