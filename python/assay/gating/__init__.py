"""`assay gate`: whether a commit, an image or a command serves faster or slower than another."""
