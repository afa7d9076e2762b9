"""The questions about the model: one function for each, which returns an `Answer`.

The command line, the pages and `import assay` call the same functions.
"""
