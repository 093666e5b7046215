"""The built-in log formats: a module for each family of programs, with one table of formats."""
