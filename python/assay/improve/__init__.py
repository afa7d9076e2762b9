"""Close the gap: levers, experiments behind a rollback gate, and the loop that tries them."""
