"""What the experience bank holds, in numbers."""
