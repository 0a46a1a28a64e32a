"""Schedules: prompts that are sent at the times of a cron expression."""
