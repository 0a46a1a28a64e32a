"""Our files: the only package that opens one."""
