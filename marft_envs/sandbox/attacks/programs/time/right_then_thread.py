"""The right answer, and a thread that outlives the main program."""
import threading
import time

number = int(input())
print(number * number + 1, flush=True)
threading.Thread(target=time.sleep, args=(1000,)).start()
