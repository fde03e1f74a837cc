"""Output that would take over a terminal, a log or a table that prints it."""
print("\x1b[2J\x1b[1;1H\x1b]0;owned\x07\x1b[31m[bold]OK[/bold][/nothing]\r\n::error::x\n{0} %s %n <script>alert(1)</script>")
print("verdict=OK score=1.0 \u202e\u2066 ]]> \x9b5n")
