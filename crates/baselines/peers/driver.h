/*
 * What the programs of this folder share: the random numbers, values and threads of perdura-lab's workloads, so that
 * each program does the same operations on as many keys.
 *
 * usage: PROGRAM WORKLOAD ENTRIES WIDTH THREADS OPERATIONS PREFETCH SEED
 *
 * PREFETCH (0 or 1): whether a transaction of swaps fetches all its addresses before the first, as ours does. Prints
 * operations a second, of all threads together.
 */
#pragma once

#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

[[noreturn]] static inline void fail(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fputs("error: ", stderr);
	vfprintf(stderr, format, arguments);
	fputs("\n", stderr);
	va_end(arguments);
	/* No destructors: other threads may be at work. */
	_Exit(1);
}

static inline uint64_t splitmix64(uint64_t seed)
{
	uint64_t z = seed + UINT64_C(0x9E3779B97F4A7C15);
	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

/* xoshiro256++, seeded as `random.rs` of perdura-workloads does. */
class Random {
	uint64_t s[4];

	static uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

public:
	Random(uint64_t seed, uint64_t stream)
	{
		uint64_t state = splitmix64(seed + stream);
		for (uint64_t &word : s) {
			word = splitmix64(state);
			state += UINT64_C(0x9E3779B97F4A7C15);
		}
	}

	uint64_t word()
	{
		uint64_t result = rotate(s[0] + s[3], 23) + s[0], t = s[1] << 17;
		s[2] ^= s[0];
		s[3] ^= s[1];
		s[1] ^= s[2];
		s[0] ^= s[3];
		s[2] ^= t;
		s[3] = rotate(s[3], 45);
		return result;
	}

	uint64_t below(uint64_t bound) { return (uint64_t)(((unsigned __int128)word() * bound) >> 64); }
};

/* The indices of two different entries. */
struct Pair {
	uint64_t a, b;
};

static inline Pair draw_pair(Random &random, uint64_t first, uint64_t count)
{
	uint64_t a = random.below(count), b = random.below(count - 1);
	return {first + a, first + b + (b >= a)};
}

/* Values that identify themselves: `payload.rs`. */
static inline uint64_t payload_word(uint64_t base, uint64_t index)
{
	uint64_t mixed = (base ^ index) * UINT64_C(0x9E3779B97F4A7C15);
	mixed ^= mixed >> 29;
	return (mixed & UINT64_C(0x3F3F3F3F3F3F3F3F)) + UINT64_C(0x2020202020202020);
}

static inline void payload_fill(uint64_t identity, uint64_t version, uint64_t *words, size_t count)
{
	uint64_t base = splitmix64(identity ^ splitmix64(version));
	words[0] = version;
	for (size_t i = 1; i < count; i++)
		words[i] = payload_word(base, i - 1);
}

struct Plan {
	std::string workload;
	uint64_t entries, width, operations, seed;
	unsigned threads;
	bool prefetch;

	Plan(int count, char **arguments)
	{
		if (count != 8)
			fail("usage: %s WORKLOAD ENTRIES WIDTH THREADS OPERATIONS PREFETCH SEED", arguments[0]);
		workload = arguments[1];
		entries = number(arguments[2]);
		width = number(arguments[3]);
		threads = (unsigned)number(arguments[4]);
		operations = number(arguments[5]);
		prefetch = number(arguments[6]) != 0;
		seed = number(arguments[7]);
		if (entries / 2 < threads || width == 0 || threads == 0)
			fail("too few entries or threads, or no width");
	}

	static uint64_t number(const char *text)
	{
		char *end;
		uint64_t value = strtoull(text, &end, 10);
		if (*text == '\0' || *end != '\0')
			fail("%s is not a number", text);
		return value;
	}
};

/* Binds the calling thread to the `index`th of the processors that it may run on. */
static inline void pin(unsigned index, const cpu_set_t &allowed)
{
	std::vector<int> all;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			all.push_back(cpu);
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(all[index % all.size()], &one);
	if (sched_setaffinity(0, sizeof one, &one) != 0)
		fail("a thread cannot be bound");
}

/*
 * Runs `work(thread, operations, random)` on each thread, the calling one among them, and returns the seconds from the
 * first one's start to the last one's end.
 */
template <class Work>
static double phase(const Plan &plan, uint64_t operations, uint64_t first_stream, Work &&work)
{
	using Clock = std::chrono::steady_clock;
	cpu_set_t allowed;
	CPU_ZERO(&allowed);
	if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
		fail("which processors there are is unknown");
	std::atomic<unsigned> ready{0};
	std::vector<Clock::time_point> starts(plan.threads), ends(plan.threads);
	auto one = [&](unsigned thread) {
		pin(thread, allowed);
		Random random(plan.seed, first_stream + thread);
		uint64_t from = operations * thread / plan.threads, to = operations * (thread + 1) / plan.threads;
		ready.fetch_add(1);
		while (ready.load() < plan.threads)
			;
		starts[thread] = Clock::now();
		work(thread, to - from, random);
		ends[thread] = Clock::now();
	};
	std::vector<std::thread> others;
	for (unsigned thread = 1; thread < plan.threads; thread++)
		others.emplace_back(one, thread);
	one(0);
	for (std::thread &other : others)
		other.join();
	if (sched_setaffinity(0, sizeof allowed, &allowed) != 0)
		fail("the first thread remains bound");
	Clock::time_point start = starts[0], end = ends[0];
	for (unsigned thread = 1; thread < plan.threads; thread++) {
		start = std::min(start, starts[thread]);
		end = std::max(end, ends[thread]);
	}
	return std::chrono::duration<double>(end - start).count();
}

/* Warms up by a tenth, measures, and prints. */
template <class Work>
static void measure(const Plan &plan, Work &&work)
{
	phase(plan, plan.operations / 10, UINT64_C(1) << 32, work);
	double seconds = phase(plan, plan.operations, 0, work);
	printf("per_second %.0f\n", (double)plan.operations / seconds);
}
