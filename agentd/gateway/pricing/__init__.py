"""Upper bounds for the cost of a request, and repricing of recorded requests."""
