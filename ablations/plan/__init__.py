"""From YAML to trials: what is asked, what it takes, and what a folder lacks of it."""
