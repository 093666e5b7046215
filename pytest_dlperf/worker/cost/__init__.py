"""Traces what a step asks of its devices, without running it: ``--dlperf-cost``."""
