"""The built-in log formats: modules of related programs, each with one table of formats."""
