// Jobs of Node's libraries: node job.js JOB write|check PORT, as python.py's.
const [job, mode, portText] = process.argv.slice(2);
const port = Number(portText);
const assert = require("assert");

// Does pieces of work until the server is gone.
async function acknowledge(work) {
  for (let number = 0; ; number++) {
    let id;
    try {
      id = await work(number);
    } catch (error) {
      console.error(error);
      process.exit(0);
    }
    // Pipes are written to before the process goes on.
    require("fs").writeSync(1, `ack ${id}\n`);
  }
}

const acknowledged = () => require("fs").readFileSync(0, "utf8").split("\n").filter((line) => line !== "");

const jobs = {
  async ioredis() {
    const Redis = require("ioredis");
    const redis = new Redis({ port, retryStrategy: mode === "write" ? null : undefined });
    redis.on("error", () => {});
    redis.defineCommand("both", { numberOfKeys: 2, lua: "redis.call('rpush', KEYS[1], ARGV[1]) return redis.call('incr', KEYS[2])" });
    if (mode === "write") {
      await acknowledge(async (number) => {
        const replies = await redis.multi().set(`key:${number}`, number).hset("hash", number, number).sadd("set", number)
          .xadd("stream", "*", "n", number).exec();
        assert(replies.every(([error]) => error === null));
        await redis.both("list", "count", number);
        return number;
      });
    }
    const ids = acknowledged();
    assert.deepStrictEqual(await redis.mget(ids.map((id) => `key:${id}`)), ids);
    assert.deepStrictEqual(await redis.hmget("hash", ids), ids);
    assert.deepStrictEqual((await redis.lrange("list", 0, ids.length - 1)), ids);
    assert((await redis.smismember("set", ids)).every((is) => is === 1));
    assert(Number(await redis.get("count")) >= ids.length && (await redis.xlen("stream")) >= ids.length);
    const blocked = redis.duplicate();
    const popped = blocked.blpop("later", 10);
    await redis.rpush("later", "x");
    assert.deepStrictEqual(await popped, ["later", "x"]);
    await blocked.subscribe("news");
    const heard = new Promise((resolve) => blocked.on("message", (_, text) => resolve(text)));
    await redis.publish("news", "y");
    assert.strictEqual(await heard, "y");
    let scanned = 0;
    for await (const keys of redis.scanStream({ match: "key:*" })) scanned += keys.length;
    assert(scanned >= ids.length);
  },

  async "node-redis"() {
    const { createClient } = require("redis");
    const redis = createClient({ url: `redis://127.0.0.1:${port}`, socket: { reconnectStrategy: false } });
    redis.on("error", () => {});
    await redis.connect();
    if (mode === "write") {
      await acknowledge(async (number) => {
        const text = String(number);
        await redis.multi().set(`key:${number}`, text).hSet("hash", text, text).zAdd("ranks", { score: number, value: text })
          .rPush("list", text).exec();
        await redis.eval("return redis.call('incr', KEYS[1])", { keys: ["count"], arguments: [] });
        return number;
      });
    }
    const ids = acknowledged();
    assert.deepStrictEqual(await redis.mGet(ids.map((id) => `key:${id}`)), ids);
    assert.deepStrictEqual(await redis.lRange("list", 0, ids.length - 1), ids);
    assert.deepStrictEqual((await redis.zRange("ranks", 0, ids.length - 1)), ids);
    assert(Number(await redis.get("count")) >= ids.length);
    const listener = redis.duplicate();
    await listener.connect();
    const heard = new Promise((resolve) => listener.subscribe("news", resolve));
    while ((await redis.publish("news", "y")) === 0);
    assert.strictEqual(await heard, "y");
    // In version 3 of the protocol.
    const three = createClient({ url: `redis://127.0.0.1:${port}`, RESP: 3 });
    await three.connect();
    assert.strictEqual(Object.keys(await three.hGetAll("hash")).length >= ids.length, true);
  },

  async bullmq() {
    const { Queue, Worker } = require("bullmq");
    const connection = { port, maxRetriesPerRequest: null, retryStrategy: mode === "write" ? () => null : () => 100 };
    const queue = new Queue("jobs", { connection });
    queue.on("error", (error) => mode === "write" && setTimeout(() => process.exit(0), 500));
    if (mode === "write") {
      await acknowledge(async (number) => (await queue.add("job", { number })).id);
    }
    const ids = new Set(acknowledged());
    const done = new Set();
    await new Promise((resolve) => {
      const worker = new Worker("jobs", async (one) => one.data.number * 2, { connection, concurrency: 4 });
      worker.on("completed", (one, result) => {
        assert.strictEqual(result, one.data.number * 2);
        done.add(one.id);
        if ([...ids].every((id) => done.has(id))) resolve();
      });
    });
    const counts = await queue.getJobCounts("completed", "failed", "waiting", "active");
    assert(counts.completed >= ids.size && counts.failed === 0);
    // Delayed and repeated jobs are worked off as well.
    await queue.add("later", { number: 1 }, { delay: 100 });
    await queue.obliterate({ force: true });
  },

  async "rate-limiter-flexible"() {
    const Redis = require("ioredis");
    const { RateLimiterRedis } = require("rate-limiter-flexible");
    const redis = new Redis({ port, retryStrategy: mode === "write" ? null : undefined });
    redis.on("error", () => {});
    const limiter = new RateLimiterRedis({ storeClient: redis, points: 1e6, duration: 10000 });
    if (mode === "write") {
      await acknowledge(async (number) => (await limiter.consume("user", 1)) && number);
    }
    const count = acknowledged().length;
    const { consumedPoints } = await limiter.get("user");
    assert(consumedPoints === count || consumedPoints === count + 1, `${consumedPoints} of ${count}`);
    const few = new RateLimiterRedis({ storeClient: redis, points: 3, duration: 1000, keyPrefix: "few" });
    for (let n = 0; n < 3; n++) await few.consume("user");
    await assert.rejects(few.consume("user"));
  },
};

jobs[job]().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
