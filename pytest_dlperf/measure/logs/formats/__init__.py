"""One module a format: what its numbers mean, and how a line is read."""
