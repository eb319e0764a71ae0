"""Sources of examples: packages, a user's own files, and tokenizers."""
