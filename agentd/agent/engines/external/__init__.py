"""Shared code of the engines that run as separate programs."""
