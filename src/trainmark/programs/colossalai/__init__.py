"""ColossalAI's examples."""
