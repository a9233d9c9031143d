"""The database's migrations, in order."""
