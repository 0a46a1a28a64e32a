"""Storage: journal, atomic documents, locks, watched files, folder layout."""
