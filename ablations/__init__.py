"""How the transformer is swept: questions, trials, jobs and records."""
