"""Programs that measure the daemon's speed and size against a bare Tornado beside it."""
