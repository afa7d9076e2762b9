"""The architectures of language models as data, one file each: configuration keys and layers."""
