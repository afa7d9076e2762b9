"""Where samples come from: GPUs, the host, engines and metrics endpoints."""
