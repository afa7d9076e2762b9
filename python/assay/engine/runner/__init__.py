"""The model runner: input batches, step buffers and captured graphs."""
