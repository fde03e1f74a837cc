"""The Berkeley Function Calling Leaderboard, read from the files of the installed package `bfcl-eval`."""
