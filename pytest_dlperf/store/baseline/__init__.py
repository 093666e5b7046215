"""Baselines: one file for each case in git, in a folder for each machine class."""
