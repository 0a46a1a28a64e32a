"""Embeddings: the dialects of OpenAI and Gemini, which alone have them, and their translation."""
