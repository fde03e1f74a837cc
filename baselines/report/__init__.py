"""Pictures and pages made from the records of runs."""
