"""Terminal styles of the parts of a line, by what a part is."""

NAME, VALUE, FAINT, GOOD, BAD, WARN = "bold", "cyan", "dim", "green", "bold red", "yellow"
