import java.util.List;
import java.util.Map;
import java.util.Scanner;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.Transaction;

/** Jobs of jedis: Job JOB write|check PORT, as python.py's. */
public class Job {
    static void must(boolean is, Object what) {
        if (!is) throw new AssertionError(what);
    }

    public static void main(String[] arguments) {
        String mode = arguments[1];
        try (Jedis jedis = new Jedis("127.0.0.1", Integer.parseInt(arguments[2]))) {
            if (mode.equals("write")) write(jedis);
            else check(jedis);
        }
    }

    static void write(Jedis jedis) {
        for (int number = 0; ; number++) {
            String text = Integer.toString(number);
            try {
                Transaction all = jedis.multi();
                all.set("key:" + text, text);
                all.hset("hash", text, text);
                all.sadd("set", text);
                all.xadd("stream", (StreamEntryID) null, Map.of("n", text));
                all.exec();
                jedis.eval("redis.call('rpush', KEYS[1], ARGV[1]) return redis.call('incr', KEYS[2])",
                        List.of("list", "count"), List.of(text));
            } catch (RuntimeException error) {
                System.err.println(error);
                Runtime.getRuntime().halt(0);
            }
            System.out.println("ack " + text);
        }
    }

    static void check(Jedis jedis) {
        int count = 0;
        for (Scanner lines = new Scanner(System.in); lines.hasNext(); count++) {
            String id = lines.next();
            must(id.equals(jedis.get("key:" + id)), id);
            must(id.equals(jedis.hget("hash", id)), id);
            must(jedis.sismember("set", id), id);
        }
        List<String> list = jedis.lrange("list", 0, -1);
        must(list.size() >= count && list.get(count - 1).equals(Integer.toString(count - 1)), list.size());
        must(Integer.parseInt(jedis.get("count")) >= count, "count");
        must(jedis.xlen("stream") >= count, "stream");
        jedis.rpush("later", "x");
        must(jedis.blpop(10, "later").get(1).equals("x"), "later");
        String digest = jedis.scriptLoad("return redis.call('get', KEYS[1])");
        must(jedis.evalsha(digest, 1, "count").equals(jedis.get("count")), digest);
    }
}
