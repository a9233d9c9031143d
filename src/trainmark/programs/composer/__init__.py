"""Composer and llm-foundry."""
