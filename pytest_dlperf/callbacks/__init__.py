"""Ready marks for trainers that own the loop."""
