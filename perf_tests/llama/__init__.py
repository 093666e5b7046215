"""Llama 3: a language model, data parallel, sharded, or tensor parallel."""
