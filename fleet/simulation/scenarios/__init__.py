"""Stories that operators can practise on the rehearsal cluster: what went wrong, told step by step, and undone on request."""
