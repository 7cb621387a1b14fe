#!/usr/bin/env python3
"""Using Perdura from Python, with the usual client: `pip install redis`.

Start a server, then run this twice: the second run finds what the first one left, even if the
server was killed in between.

    cargo run --release -- serve --pool shop.pool
    python3 examples/redis_py.py
"""

import os

import redis

# Every reply means: this is durable. There is nothing to configure, and no call to wait with.
db = redis.Redis(
    host=os.environ.get("PERDURA_HOST", "127.0.0.1"),
    port=int(os.environ.get("PERDURA_PORT", "7379")),
    decode_responses=True,
)

# Strings and counters.
visits = db.incr("visits")
print(f"visit number {visits}")

# A hash is an object with fields; one that is small is stored in one piece.
db.hset("product:17", mapping={"name": "lamp", "price": "19.90", "stock": 5})
print(db.hgetall("product:17"))

# A pipeline sends many commands at once. They share transactions, and one fence or sync makes
# all of them durable: this is how to load much in a short time.
with db.pipeline(transaction=False) as pipe:
    for number in range(1000):
        pipe.zadd("ranking", {f"player:{number}": number * 37 % 1000})
    pipe.execute()
print("best three:", db.zrevrange("ranking", 0, 2, withscores=True))


def sell(pipe: redis.client.Pipeline) -> None:
    """Takes one product out of stock and counts it as sold, or does neither."""
    stock = int(pipe.hget("product:17", "stock") or 0)
    # From here on commands are queued: they take effect together, or, when the product was
    # changed by somebody else since it was read, not at all, and all this is tried again.
    pipe.multi()
    if stock > 0:
        pipe.hincrby("product:17", "stock", -1)
        pipe.incr("sold")


db.transaction(sell, "product:17")
print("sold so far:", db.get("sold"))

# Keys may expire, also while the server is down.
db.set("session:abc", "someone", ex=3600)
print("session ends in", db.ttl("session:abc"), "seconds")

# Scanning visits everything without stopping anybody else.
print("keys:", sorted(db.scan_iter(match="*", count=100)))
