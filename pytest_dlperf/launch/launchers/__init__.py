"""One module a launcher: the command that starts the ranks."""
