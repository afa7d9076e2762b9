"""Speech: recognition and synthesis on the operations of the runtime."""
