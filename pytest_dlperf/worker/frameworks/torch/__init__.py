"""PyTorch in a rank."""
