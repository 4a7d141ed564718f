"""Code: tasks that ask for a Python function, judged by running it against tests in a process of its own."""
