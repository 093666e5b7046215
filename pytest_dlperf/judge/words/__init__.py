"""The words of a judgement: one clause for each finding, one sentence for all of them."""
