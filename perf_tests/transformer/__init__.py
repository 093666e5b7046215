"""Transformer big: machine translation by encoder and decoder."""
