"""The management of the model gateway over HTTP: one module for each resource."""
