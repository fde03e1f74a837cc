"""The Berkeley Function Calling Leaderboard, played from the files of the installed package `bfcl-eval`."""
