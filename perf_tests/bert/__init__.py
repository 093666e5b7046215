"""BERT base: pre-training on masked words and pairs of sentences."""
