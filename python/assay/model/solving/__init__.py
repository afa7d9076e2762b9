"""Finding values that make other values come true."""
