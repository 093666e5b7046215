"""Trainings that take each path of PyTorch on a GPU, for ``first_gpu.py``."""
