"""Checks: each takes evidence, and yields what it finds; none knows of another."""
