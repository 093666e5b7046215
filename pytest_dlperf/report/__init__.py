"""Outcomes in, text out: renderers print nothing themselves."""
