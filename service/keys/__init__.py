"""API keys: made and revoked by operators; the secret is shown once."""
