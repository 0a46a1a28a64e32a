"""The languages in which suppliers are spoken to, and the neutral one between them."""
