/*
 * A bound: swaps of random words by a packed redo log and nothing else. A transaction's record is a sequence number, a
 * check and the new words with their addresses, four to a line; its lines are stored past the caches, one fence waits
 * for them, then the words are stored where they belong. When the log is full, the array is written back, and the log
 * begins again. No allocation, and nothing that would let threads share an array: each has a log and a part of its own.
 *
 * Usage as the other programs' (driver.h), for the workload sps. PEER_POOL names the file.
 */
#include "driver.h"

#include <algorithm>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint64_t line = 64, log_bytes = UINT64_C(4) << 20, most_bytes = 4096;

struct Entry {
	uint64_t index, word;
};

struct Head {
	uint64_t sequence, check;
};

/* Where replay begins: in a line of its own, before each thread's log. */
struct Checkpoint {
	alignas(line) uint64_t sequence;
};

static inline void write_back(const void *at) { _mm_clwb((void *)at); }

/* Stores a whole line past the caches: on a line that is in none, half the time of a store and a write-back. */
static inline void stream(void *to, const void *from)
{
	for (unsigned part = 0; part < 4; part++)
		_mm_stream_si128((__m128i *)to + part, _mm_load_si128((const __m128i *)from + part));
}

static inline void fence() { asm volatile("sfence" ::: "memory"); }

/* A sum of products, one of each pair of words, as fast hashes have. */
static inline uint64_t check_of(uint64_t sequence, const Entry *entries, uint64_t count)
{
	uint64_t sum = sequence * UINT64_C(0x9E3779B97F4A7C15) ^ count;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t index = entries[i].index + UINT64_C(0xBF58476D1CE4E5B9) * (i + 1);
		uint64_t word = entries[i].word ^ UINT64_C(0x94D049BB133111EB);
		sum += (word ^ index) * (index | 1) + (word >> 32);
	}
	return sum | 1;
}

class Log {
	uint64_t *array, *first, *last;
	Checkpoint *checkpoint;
	uint8_t *start, *at, *end;
	uint64_t sequence = 1;
	alignas(line) uint8_t record[most_bytes];

	/* Makes durable what the records say, and forgets them. They name most lines of the part, and many of them often. */
	void empty()
	{
		for (const uint8_t *word = (const uint8_t *)first; word < (const uint8_t *)last; word += line)
			write_back(word);
		fence();
		checkpoint->sequence = sequence;
		write_back(checkpoint);
		fence();
		at = start;
	}

public:
	/* Of swaps in `from..to`. */
	Log(uint64_t *array, uint64_t from, uint64_t to, uint8_t *room)
	    : array(array), first(array + from / 8 * 8), last(array + to), checkpoint((Checkpoint *)room), start(room + sizeof(Checkpoint)), at(start),
	      end(room + log_bytes)
	{
	}

	void swap(const std::vector<Pair> &pairs)
	{
		const uint64_t count = 2 * pairs.size();
		const uint64_t bytes = (sizeof(Head) + count * sizeof(Entry) + line - 1) / line * line;
		if (at + bytes > end)
			empty();
		Head *head = (Head *)record;
		Entry *entries = (Entry *)(record + sizeof(Head));
		for (const Pair &pair : pairs) {
			__builtin_prefetch(array + pair.a);
			__builtin_prefetch(array + pair.b);
		}
		/* A bit for each word that was written: few are read again. */
		uint64_t written = 0, made = 0;
		auto read = [&](uint64_t index) {
			if (written >> index % 64 & 1)
				for (uint64_t i = made; i-- > 0;)
					if (entries[i].index == index)
						return entries[i].word;
			return array[index];
		};
		for (const Pair &pair : pairs) {
			const uint64_t a = read(pair.a), b = read(pair.b);
			entries[made++] = {pair.a, b};
			entries[made++] = {pair.b, a};
			written |= UINT64_C(1) << pair.a % 64 | UINT64_C(1) << pair.b % 64;
		}
		*head = {sequence, check_of(sequence, entries, count)};
		for (uint64_t from = 0; from < bytes; from += line)
			stream(at + from, record + from);
		fence();
		for (uint64_t i = 0; i < count; i++)
			array[entries[i].index] = entries[i].word;
		at += bytes;
		sequence++;
	}
};

int main(int count, char **arguments)
{
	const Plan plan(count, arguments);
	const char *file = getenv("PEER_POOL");
	if (plan.workload != "sps" || file == nullptr)
		fail("this does swaps only, in the file that PEER_POOL names");
	if (sizeof(Head) + 2 * plan.width * sizeof(Entry) > most_bytes)
		fail("a record has no room for %lu swaps", plan.width);
	const uint64_t room = (plan.entries * sizeof(uint64_t) + 4095) / 4096 * 4096;
	const uint64_t bytes = room + plan.threads * log_bytes;
	unlink(file);
	const int descriptor = open(file, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (descriptor < 0 || ftruncate(descriptor, (off_t)bytes) != 0)
		fail("no file %s", file);
	void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	unlink(file);
	if (mapped == MAP_FAILED)
		fail("no memory");
	uint64_t *array = (uint64_t *)mapped;
	for (uint64_t i = 0; i < plan.entries; i++)
		array[i] = i;
	std::vector<Log> logs;
	for (unsigned thread = 0; thread < plan.threads; thread++)
		logs.emplace_back(array, plan.entries * thread / plan.threads, plan.entries * (thread + 1) / plan.threads,
				  (uint8_t *)mapped + room + thread * log_bytes);
	memset((uint8_t *)mapped + room, 0, plan.threads * log_bytes);
	measure(plan, [&](unsigned thread, uint64_t operations, Random &random) {
		const uint64_t from = plan.entries * thread / plan.threads;
		const uint64_t part = plan.entries * (thread + 1) / plan.threads - from;
		Log log = logs[thread];
		std::vector<Pair> pairs(plan.width);
		for (uint64_t i = 0; i < operations; i++) {
			for (Pair &pair : pairs)
				pair = draw_pair(random, from, part);
			log.swap(pairs);
		}
		logs[thread] = log;
	});
	std::vector<bool> seen(plan.entries);
	for (uint64_t i = 0; i < plan.entries; i++) {
		if (array[i] >= plan.entries || seen[array[i]])
			fail("entry %lu holds %lu: no permutation", i, array[i]);
		seen[array[i]] = true;
	}
	return 0;
}
