"""The web server: requests, responses, routing, JSON bodies, errors, OpenAPI, limits."""
