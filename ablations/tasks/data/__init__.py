"""Where examples come from: packages, files of the user's own, and how text is cut."""
