"""What is known: records, the plan, the folder that holds them. Analysis enters no other room."""
