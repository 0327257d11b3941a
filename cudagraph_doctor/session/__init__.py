"""What happened in one process, rebuilt from its trace: the state machines that answer the checkers' questions."""
