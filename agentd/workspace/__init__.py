"""The working repository: git, uploads, builds, deployments, automatic fixes."""
