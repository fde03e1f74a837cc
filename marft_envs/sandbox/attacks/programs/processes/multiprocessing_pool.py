"""A pool of worker processes: each would have a CPU limit of its own."""
import multiprocessing

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(4) as pool:
        print("REACHED", len(pool.map(abs, range(4))), "workers")
