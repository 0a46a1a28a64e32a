"""What is managed of the gateway: every change under one journal, and how it is undone."""
