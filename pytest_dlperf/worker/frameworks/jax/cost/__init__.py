"""Traces a step in JAX on abstract arrays, and counts what XLA's partitioned program asks for."""
