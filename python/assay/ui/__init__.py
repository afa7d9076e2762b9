"""The pages of `assay ui`: an HTTP API over the commands, and the built front end."""
