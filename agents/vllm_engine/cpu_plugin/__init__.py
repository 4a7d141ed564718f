"""A folder for the PYTHONPATH of a vLLM server on the CPU: vLLM finds the plugin in it by its entry point."""
