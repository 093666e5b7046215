"""TensorFlow in a rank."""
