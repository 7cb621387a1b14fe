"""Jobs of Python's libraries: python.py JOB write|check PORT. `write` says `ack ID` of each piece of work that the server has
acknowledged, until it is gone; `check` gets these lines' IDs, and fails unless all of it is there."""
import itertools, os, subprocess, sys, threading, time

job, mode, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.environ["PORT"] = str(port)
URL = f"redis://127.0.0.1:{port}/0"

import redis

client = redis.Redis(port=port, decode_responses=True)


def acknowledge(work):
    """Does pieces of work until the server is gone."""
    for number in itertools.count():
        try:
            print("ack", work(number), flush=True)
        except Exception as error:  # noqa: BLE001: each library has its own kind
            print(repr(error), file=sys.stderr)
            os._exit(0)


def acknowledged():
    return [line.strip() for line in sys.stdin]


def until(ready, seconds=60):
    ends = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < ends, "it takes too long"
        time.sleep(0.05)


def redis_py():
    script = client.register_script("redis.call('rpush', KEYS[1], ARGV[1]) return redis.call('incr', KEYS[2])")
    if mode == "write":
        client.execute_command("XGROUP", "CREATE", "stream", "group", "$", "MKSTREAM")

        def work(number):
            with client.pipeline(transaction=True) as pipe:
                pipe.set(f"key:{number}", number, ex=1000).hset("hash", f"field:{number}", number)
                pipe.sadd("set", number).zadd("ranks", {str(number): number}).xadd("stream", {"n": number})
                pipe.execute()
            script(keys=["list", "count"], args=[number])
            return number

        acknowledge(work)
    ids = acknowledged()
    assert client.mget([f"key:{one}" for one in ids]) == ids
    assert client.hmget("hash", [f"field:{one}" for one in ids]) == ids
    assert set(ids) <= client.smembers("set") and set(ids) <= set(client.zrange("ranks", 0, -1))
    assert client.lrange("list", 0, len(ids) - 1) == ids and int(client.get("count")) >= len(ids)
    read = client.xreadgroup("group", "consumer", {"stream": ">"}, count=10 * len(ids))
    entries = [fields["n"] for _, fields in (read[0][1] if isinstance(read, list) else read["stream"][0])]
    assert entries[: len(ids)] == ids
    listener = client.pubsub()
    listener.subscribe("news")
    client.publish("news", "x")
    until(lambda: (listener.get_message(timeout=1) or {}).get("data") == "x")


def lock():
    token = lambda number: f"token-{number}".encode()
    of = lambda number: client.lock(f"lock:{number}", timeout=1000, thread_local=False)
    if mode == "write":

        def work(number):
            assert of(number).acquire(token=token(number))
            assert not of(number).acquire(blocking=False)
            return number

        acknowledge(work)
    for one in acknowledged():
        held = of(one)
        held.local.token = token(one)
        assert held.owned(), one
        assert held.extend(10) and held.reacquire()
        held.release()
        assert not held.locked() and of(one).acquire(blocking=False)


def limits_job():
    import limits

    storage = limits.storage.storage_from_string(URL)
    all_of = [
        (name, kind(storage), limits.parse("1000000/day"))
        for name, kind in [
            ("fixed", limits.strategies.FixedWindowRateLimiter),
            ("moving", limits.strategies.MovingWindowRateLimiter),
            ("sliding", limits.strategies.SlidingWindowCounterRateLimiter),
        ]
    ]
    if mode == "write":

        def work(number):
            for name, limiter, limit in all_of:
                assert limiter.hit(limit, name)
            return number

        acknowledge(work)
    count = len(acknowledged())
    for name, limiter, limit in all_of:
        left = limiter.get_window_stats(limit, name).remaining
        assert limit.amount - count - 1 <= left <= limit.amount - count, (name, left)
        few = limits.parse("3/day")
        assert [limiter.hit(few, name, "few") for _ in range(4)] == [True] * 3 + [False]


def huey_job():
    import huey

    app = huey.RedisHuey("jobs", port=port)

    @app.task()
    def work_off(number):
        client.sadd("done", number)
        return number

    if mode == "write":
        acknowledge(lambda number: work_off(number) and number)
    ids = acknowledged()
    consumer = app.create_consumer(workers=2)
    consumer.start()
    until(lambda: set(ids) <= client.smembers("done"))
    consumer.stop(graceful=True)


def celery_job():
    import celery

    app = celery.Celery("jobs", broker=URL, backend=URL)
    # A worker, and what sends it work, are different processes.
    app.conf.update(broker_connection_retry_on_startup=True, broker_transport_options={"max_retries": 0}, redis_socket_timeout=5)

    @app.task(name="work_off")
    def work_off(number):
        return number * 2

    if mode == "worker":
        app.Worker(pool="solo", loglevel="WARNING").start()
        return
    if mode == "write":
        acknowledge(lambda number: work_off.apply_async((number,), retry=False).id)
    ids = acknowledged()
    worker = subprocess.Popen([sys.executable, __file__, job, "worker", str(port)], stderr=subprocess.DEVNULL)
    try:
        for number, one in enumerate(ids):
            assert app.AsyncResult(one).get(timeout=60) == number * 2
    finally:
        worker.kill()


def rq_job():
    import rq

    own = redis.Redis(port=port)
    queue = rq.Queue(connection=own)
    if mode == "write":
        acknowledge(lambda number: queue.enqueue("operator.mul", number, 2, result_ttl=1000).id)
    ids = acknowledged()
    rq.SimpleWorker([queue], connection=own).work(burst=True)
    for number, one in enumerate(ids):
        found = rq.job.Job.fetch(one, connection=own)
        assert found.is_finished and found.return_value() == number * 2, one


def dramatiq_job():
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    broker = RedisBroker(url=URL)
    dramatiq.set_broker(broker)

    @dramatiq.actor
    def work_off(number):
        client.sadd("done", number)

    if mode == "write":
        acknowledge(lambda number: work_off.send(number) and number)
    ids = acknowledged()
    worker = dramatiq.Worker(broker, worker_threads=2)
    worker.start()
    until(lambda: set(ids) <= client.smembers("done"))
    worker.stop()


def django_job(backend):
    from django.conf import settings

    settings.configure(CACHES={"default": {"BACKEND": backend, "LOCATION": URL, "TIMEOUT": 1000}})
    import django
    from django.core.cache import cache

    django.setup()
    if mode == "write":
        cache.set("count", 0)

        def work(number):
            cache.set(f"key:{number}", {"n": number})
            assert cache.add(f"new:{number}", number) and not cache.add(f"new:{number}", 0)
            cache.incr("count")
            return number

        acknowledge(work)
    ids = acknowledged()
    found = cache.get_many([f"key:{one}" for one in ids])
    assert all(found[f"key:{one}"] == {"n": int(one)} for one in ids)
    assert cache.get("count") >= len(ids) and cache.touch("count", 5)
    assert cache.get_or_set("made", lambda: 7) == 7 and cache.delete("made") and cache.get("made") is None
    cache.delete_many([f"new:{one}" for one in ids])
    assert cache.get(f"new:{ids[0]}") is None
    cache.clear()
    assert cache.get("count") is None


{
    "redis-py": redis_py,
    "redis-py-lock": lock,
    "limits": limits_job,
    "huey": huey_job,
    "celery": celery_job,
    "rq": rq_job,
    "dramatiq": dramatiq_job,
    "django": lambda: django_job("django.core.cache.backends.redis.RedisCache"),
    "django-redis": lambda: django_job("django_redis.cache.RedisCache"),
}[job]()
sys.stdout.flush()
# Whatever threads a library has left.
os._exit(0)
