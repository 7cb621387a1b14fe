// Jobs of go-redis: job JOB write|check PORT, as python.py's.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

var both = redis.NewScript("redis.call('rpush', KEYS[1], ARGV[1]) return redis.call('incr', KEYS[2])")

func must(is bool, what ...any) {
	if !is {
		fmt.Fprintln(os.Stderr, what...)
		os.Exit(1)
	}
}

func main() {
	mode, port := os.Args[2], os.Args[3]
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, MaxRetries: -1})
	if mode == "write" {
		for number := 0; ; number++ {
			_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, fmt.Sprint("key:", number), number, time.Hour)
				pipe.HSet(ctx, "hash", number, number)
				pipe.ZAdd(ctx, "ranks", redis.Z{Score: float64(number), Member: number})
				pipe.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: []any{"n", number}})
				return nil
			})
			if err == nil {
				err = both.Run(ctx, client, []string{"list", "count"}, number).Err()
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			fmt.Println("ack", number)
		}
	}
	count := 0
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); count++ {
		id := lines.Text()
		found, err := client.Get(ctx, "key:"+id).Result()
		must(err == nil && found == id, id, found, err)
		found, err = client.HGet(ctx, "hash", id).Result()
		must(err == nil && found == id, id, found, err)
		rank, err := client.ZScore(ctx, "ranks", id).Result()
		must(err == nil && strconv.Itoa(int(rank)) == id, id, rank, err)
	}
	list, err := client.LRange(ctx, "list", 0, -1).Result()
	must(err == nil && len(list) >= count && list[count-1] == strconv.Itoa(count-1), len(list), err)
	must(client.XGroupCreate(ctx, "stream", "group", "0").Err() == nil, "XGROUP")
	read, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "group", Consumer: "one", Streams: []string{"stream", ">"}}).Result()
	must(err == nil && len(read[0].Messages) >= count, err)
	// A transaction that watches, a blocking pop, and messages.
	err = client.Watch(ctx, func(tx *redis.Tx) error {
		value, err := tx.Get(ctx, "count").Int()
		must(err == nil && value >= count, value, err)
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "count", value+1, 0).Err() })
		return err
	}, "count")
	must(err == nil, err)
	go func() { client.LPush(ctx, "later", "x") }()
	popped, err := client.BLPop(ctx, 10*time.Second, "later").Result()
	must(err == nil && popped[1] == "x", popped, err)
	listener := client.Subscribe(ctx, "news")
	_, err = listener.Receive(ctx)
	must(err == nil, err)
	must(client.Publish(ctx, "news", "y").Val() == 1, "PUBLISH")
	message, err := listener.ReceiveMessage(ctx)
	must(err == nil && message.Payload == "y", err)
}
