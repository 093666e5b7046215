"""The flow of one case: launch, measure, judge; pairs of an A/B; cases measured elsewhere."""
