"""The model runner: input batches, KV memory and captured graphs."""
