"""Training logs that the plugin did not write, turned into spans."""
