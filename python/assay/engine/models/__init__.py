"""The architectures, one small file each over shared layers."""
