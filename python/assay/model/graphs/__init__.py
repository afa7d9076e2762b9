"""The graph of variables and relations: walking it and writing it out."""
