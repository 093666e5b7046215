"""Traces a step in PyTorch on fake tensors and fake ranks, and counts what it asks for."""
