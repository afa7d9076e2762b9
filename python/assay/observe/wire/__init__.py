"""The wire format of Protocol Buffers, for a column of messages at a time."""
