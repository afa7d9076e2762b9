"""Where samples go: files, a Prometheus exporter, OTLP, object storage, or a class of the user's."""
