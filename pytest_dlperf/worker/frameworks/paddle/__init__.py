"""Paddle in a rank."""
