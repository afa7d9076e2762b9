"""The JSON API, version 1: one module a page, each with a `router`."""
