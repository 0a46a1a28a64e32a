"""Reading the workspace: its folders, files and what is written in them."""
