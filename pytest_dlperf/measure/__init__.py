"""Reads what the ranks of a run wrote, and turns it into what the run measured."""
