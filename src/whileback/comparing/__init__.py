"""What changed from one model to another, whatever its values are called."""
