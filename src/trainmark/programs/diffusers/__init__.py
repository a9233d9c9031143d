"""Hugging Face Accelerate (diffusers)."""
