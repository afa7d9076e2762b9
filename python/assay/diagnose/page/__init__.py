"""A diagnosis as one HTML file: pictures, tables, and what could not be said."""
