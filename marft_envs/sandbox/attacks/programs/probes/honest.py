"""An honest program: must be judged OK whatever ran before it."""
number = int(input())
print(number * number + 1)
