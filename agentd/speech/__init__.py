"""Transcription and speech synthesis."""
