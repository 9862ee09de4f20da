"""The contended lock of benchmarks/predictions/simulator.py in SimPy: lock_simpy.py TASKS PICOSECONDS."""

import json
import sys
import time

import simpy

THINK = 10_000_000_000
HOLD = 100_000_000
WORD = (1 << 64) - 1


def simulate(tasks: int, until: int) -> list[int]:
    env = simpy.Environment()
    lock = simpy.Resource(env)
    history = [0, 0]

    def task(number):
        random = number
        while True:
            random = (random * 6364136223846793005 + 1442695040888963407) & WORD
            yield env.timeout((random >> 32) * (2 * THINK) >> 32)
            with lock.request() as request:
                yield request
                yield env.timeout(HOLD)
            history[0] += 1
            history[1] = (history[1] + env.now * (2 * number + 1)) & WORD

    for number in range(tasks):
        env.process(task(number))
    env.run(until=until)
    return history


start = time.process_time()
operations, moments = simulate(int(sys.argv[1]), int(sys.argv[2]))
took = time.process_time() - start
print(json.dumps({"operations": operations, "moments": moments, "seconds": took}))
