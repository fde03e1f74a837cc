"""Constants that a compiler would fold into gigabytes."""
value = ((((((("x" * 4096) * 4096) * 4096) * 4096) * 4096) * 4096) * 4096)
print("REACHED", len(value))
