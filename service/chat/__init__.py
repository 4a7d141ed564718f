"""Chat: OpenAI's `/v1/chat/completions`; the tools are the client's, each conversation is one episode."""
