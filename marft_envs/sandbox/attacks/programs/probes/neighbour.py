"""An honest program that runs beside an attack, with something to steal and time to lose."""
import time

secret = "@SECRET@"
number = int(input())
time.sleep(0.02)
print(number * number + 1)
