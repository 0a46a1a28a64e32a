"""Model APIs: parsed from and rendered to callers, and spoken to suppliers."""
