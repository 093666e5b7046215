"""The launchers, one module each: the command that starts the ranks."""
