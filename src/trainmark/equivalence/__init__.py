"""Did two frameworks do the same training step? What goes into each, what came out, and the certificate."""
