"""Tools for measurement reports: which rule gives the numbers of their tables."""
