"""Remembers what was measured."""
