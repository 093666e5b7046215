"""The vocabulary: frozen types that the stages pass to each other. No input or output."""
