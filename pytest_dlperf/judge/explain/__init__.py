"""The cause of a change of speed, by profiles of both sides: pure functions."""
