"""OpenTelemetry: a span for each gateway request, and one for each attempt."""
