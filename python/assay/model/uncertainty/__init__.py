"""What uncertain inputs make of a result."""
