"""A training with planted causes of slowness, for ``explain_study.py``."""
