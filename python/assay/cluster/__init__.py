"""Work that outgrows a process: cut into numbered parts, run here or by Ray, gathered in order."""
