"""Load on a server: workloads, the client that sends them, and the figures of a window."""
