"""The browser interface: static files as they are written, and the page that loads them."""
