"""Named management keys."""
