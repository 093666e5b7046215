"""Recommendation: embedding tables spread over the ranks, DCNv2 and Wide & Deep."""
