"""Models: OpenAI's `/v1/models`, the alias `student` and, for operators, the versions that are loaded."""
