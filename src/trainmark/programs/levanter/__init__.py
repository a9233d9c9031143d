"""Levanter."""
