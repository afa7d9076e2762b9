"""What did happen, against what should have: residuals, invariants, causes and what-if."""
