"""Building blocks for every module: errors, clock, identifiers, events, threads, redaction."""
