"""The line protocol that `neurim benchmark serve=true` speaks too.

One JSON line {"ready": 1, "base": {…}, "keys": {KEY: images a call}}, then an answer {"times": [seconds of each call]} to every
"go KEY SECONDS", and {"peak_rss_mib": …} to "quit".
"""
import json
import os
import resource
import sys
import time


def timed(call, seconds):
    """The seconds of each call; at least one."""
    times, now = [], time.perf_counter()
    end = now + seconds
    while not times or now < end:
        begin, _ = now, call()
        now = time.perf_counter()
        times.append(now - begin)
    return times


def serve(peer, version, call, images):
    """Answers until "quit"; `call` returns when its work is done."""
    def say(**answer):
        print(json.dumps(answer), flush=True)

    key = f"bs{images}"
    say(ready=1, base={"peer": peer, "version": version}, keys={key: images})
    for line in sys.stdin:
        word, *rest = line.split() or ["quit"]
        if word == "quit":
            break
        asked, seconds = rest
        if word != "go" or asked != key:
            sys.exit(f"cannot answer '{line.strip()}'")
        say(times=timed(call, float(seconds)))
    say(peak_rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    sys.stdout.flush()
    os._exit(0)  # taking thread pools down can take seconds
