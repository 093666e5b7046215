"""What ``where_noise_sits.py`` is made of: the variance components, and what a rank trains."""
