"""Runs cases as jobs of a cluster's scheduler, or says how one would."""
