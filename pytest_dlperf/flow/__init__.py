"""The flow of one case: launch, measure, judge; A/B pairs; logs and jobs in place of launches."""
