"""What boards do right now: facts from the records of runs, for a terminal and for a page."""
