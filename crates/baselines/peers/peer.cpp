/*
 * perdura-lab's workloads on a persistent transactional memory of https://github.com/pramalhe/durabletx, with its own
 * data structures where it has them. Compiled once for each of its engines: -DUSE_QUADRA_FC, -DUSE_QUADRA_VR_FC,
 * -DUSE_TRINITY_VR_FC or -DUSE_TRINITY_VR_TL2, and -I of its source tree. Each checks its answer at the end.
 */
#include "driver.h"

#include <algorithm>
#include <functional>
#include <csetjmp>
#include <iostream>
#include <unistd.h>

/* Where and how large the pool is, known before its constructor runs: that is before main. */
static const char *environment(const char *name)
{
	const char *value = getenv(name);
	if (value == nullptr)
		fail("%s is not set", name);
	return value;
}

static const char *pool_file = environment("PEER_POOL");
static const uint64_t pool_bytes = Plan::number(environment("PEER_POOL_BYTES"));
#define PM_FILE_NAME pool_file
#define PM_REGION_SIZE pool_bytes

#if defined USE_QUADRA_VR_FC
#define PEER_NAMESPACE quadravrfc
static const char *const replica = "/dev/shm/quadravrfc_shared_main";
#elif defined USE_TRINITY_VR_FC
#define PEER_NAMESPACE trinityvrfc
static const char *const replica = "/dev/shm/trinityvrfc_shared_main";
#elif defined USE_TRINITY_VR_TL2
#define PEER_NAMESPACE trinityvrtl2
static const char *const replica = "/dev/shm/trinityvrtl2_shared_main";
#else
#define NO_REPLICA
static const char *const replica = nullptr;
#endif

/* Files of a run that was ended would be recovered, and files in use need no name. */
static bool remove_files()
{
	unlink(pool_file);
	if (replica != nullptr)
		unlink(replica);
	return true;
}
static const bool removed = remove_files();

#ifdef USE_TRINITY_VR_TL2
/* Newer compilers want the attribute at the first declaration. */
namespace trinityvrtl2 {
struct OpData;
[[noreturn]] void abortTx(OpData *);
}
#endif

#include "ptms/ptm.h"

#include "pdatastructures/TMBTree.hpp"
#include "pdatastructures/TMHashMap.hpp"
#include "pdatastructures/TMRedBlackTree.hpp"

#include "structures.h"

using TM = PTM_CLASS;
template <class T>
using P = PTM_TYPE<T>;

/*
 * An update by a closure of one reference, which std::function keeps without an allocation. Called again after an
 * abort: `body` begins anew.
 */
template <class F>
static inline void update(F &&body)
{
	TM::updateTx([&body]() { body(); });
}

template <class F>
static inline void look(F &&body)
{
	TM::readTx([&body]() { body(); });
}

/* Fetches what a transaction that changes this word will touch. */
static inline void prefetch(const P<uint64_t> *word)
{
	__builtin_prefetch(word);
#ifndef NO_REPLICA
	using namespace PEER_NAMESPACE;
	__builtin_prefetch((const void *)VR_2_PCL(word));
#ifdef USE_TRINITY_VR_TL2
	__builtin_prefetch(&gHashLock[hidx(VR_2_PCL(word))]);
#endif
#endif
}

/* Swaps of random words: `sps.rs`. WIDTH: swaps in a transaction. */
static void sps(const Plan &plan)
{
	const uint64_t chunk = 512;
	P<uint64_t> *array = nullptr;
	update([&] { array = (P<uint64_t> *)TM::pmalloc(plan.entries * sizeof(P<uint64_t>)); });
	for (uint64_t first = 0; first < plan.entries; first += chunk)
		update([&] {
			for (uint64_t i = first; i < std::min(plan.entries, first + chunk); i++)
				array[i] = i;
		});
	measure(plan, [&](unsigned, uint64_t operations, Random &random) {
		std::vector<Pair> pairs(plan.width);
		const bool fetch = plan.prefetch;
		for (uint64_t i = 0; i < operations; i++) {
			for (Pair &pair : pairs)
				pair = draw_pair(random, 0, plan.entries);
			update([&] {
				if (fetch)
					for (const Pair &pair : pairs) {
						prefetch(array + pair.a);
						prefetch(array + pair.b);
					}
				for (const Pair &pair : pairs) {
					uint64_t a = array[pair.a], b = array[pair.b];
					array[pair.a] = b;
					array[pair.b] = a;
				}
			});
		}
	});
	std::vector<bool> seen(plan.entries);
	for (uint64_t i = 0; i < plan.entries; i++) {
		uint64_t value = 0;
		look([&] { value = array[i]; });
		if (value >= plan.entries || seen[value])
			fail("entry %lu holds %lu: no permutation", i, value);
		seen[value] = true;
	}
}

/* A set of keys with values, in the shape that the toggles need. */
struct HashSet {
	using Map = TMHashMap<uint64_t, uint64_t, TM, P>;
	Map *map;

	void create(uint64_t) { map = TM::template tmNew<Map>(); }
	bool find(uint64_t key, uint64_t &value) { return map->innerGet(key, value, true); }
	void insert(uint64_t key, uint64_t value)
	{
		uint64_t old;
		map->innerPut(key, value, old, false);
	}
	bool remove(uint64_t key)
	{
		uint64_t old;
		return map->innerRemove(key, old, false);
	}
};

struct RedBlackTree {
	using Map = TMRedBlackTree<uint64_t, uint64_t, TM, P>;
	Map *map;

	void create(uint64_t) { map = TM::template tmNew<Map>(); }
	/* It finds no values. */
	bool find(uint64_t key, uint64_t &)
	{
		uint64_t none;
		return map->innerGet(key, none, false);
	}
	void insert(uint64_t key, uint64_t value) { map->innerPut(key, value); }
	bool remove(uint64_t key)
	{
		uint64_t none;
		if (!map->innerGet(key, none, false))
			return false;
		map->innerRemove(key);
		return true;
	}
};

/* A set, without values: their map is not finished. */
struct BTree {
	using Set = TMBTree<uint64_t, TM, P>;
	Set *set;

	void create(uint64_t) { set = TM::template tmNew<Set>(); }
	bool find(uint64_t key, uint64_t &) { return set->seqContains(key); }
	void insert(uint64_t key, uint64_t) { set->insert(key); }
	bool remove(uint64_t key) { return set->erase(key) == 1; }
};

template <class Set>
constexpr bool has_values = true;
template <>
constexpr bool has_values<RedBlackTree> = false;
template <>
constexpr bool has_values<BTree> = false;

/* Toggles a key: in one search where the structure can. */
template <class Set>
static inline auto toggle(Set &set, uint64_t key, uint64_t value) -> decltype(set.toggle(key, value))
{
	set.toggle(key, value);
}

template <class Set, class... None>
static inline void toggle(Set &set, uint64_t key, uint64_t value, None...)
{
	if (!set.remove(key))
		set.insert(key, value);
}

/* Fails unless exactly the keys are there that `expected` says, each with its value. */
template <class Set, class Expected, class Value>
static void check(Set &set, uint64_t keys, Expected &&expected, Value &&value_of)
{
	for (uint64_t key = 0; key < keys; key++) {
		uint64_t value = 0;
		bool found = false;
		look([&] { found = set.find(key, value); });
		if (found != expected(key))
			fail("key %lu is %s", key, found ? "there, and should not be" : "not there");
		if (has_values<Set> && found && value != value_of(key))
			fail("key %lu has another's value", key);
	}
}

static uint64_t toggled_value(uint64_t key)
{
	return (key ^ 0x7066) * UINT64_C(0x9E3779B97F4A7C15) >> 32;
}

/* Keys inserted if they are absent, deleted if they are there: `toggle/mod.rs`. WIDTH: keys in a transaction. */
template <class Set>
static void toggles(const Plan &plan)
{
	const uint64_t keys = 2 * plan.entries, batch = 64;
	std::vector<std::atomic<uint64_t>> present((keys + 63) / 64);
	auto flip = [&](uint64_t key) {
		present[key / 64].fetch_xor(UINT64_C(1) << key % 64, std::memory_order_relaxed);
	};
	Set set;
	update([&] { set.create(plan.entries); });
	std::vector<uint64_t> order(plan.entries);
	for (uint64_t i = 0; i < plan.entries; i++)
		order[i] = 2 * i;
	Random shuffle(plan.entries, 0);
	for (uint64_t last = plan.entries - 1; last > 0; last--)
		std::swap(order[last], order[shuffle.below(last + 1)]);
	for (uint64_t first = 0; first < plan.entries; first += batch) {
		const uint64_t end = std::min(plan.entries, first + batch);
		update([&] {
			for (uint64_t i = first; i < end; i++)
				set.insert(order[i], toggled_value(order[i]));
		});
		for (uint64_t i = first; i < end; i++)
			flip(order[i]);
	}
	measure(plan, [&](unsigned, uint64_t operations, Random &random) {
		std::vector<uint64_t> drawn(plan.width);
		for (uint64_t i = 0; i < operations; i++) {
			for (uint64_t &key : drawn)
				key = random.below(keys);
			update([&] {
				for (uint64_t key : drawn)
					toggle(set, key, toggled_value(key));
			});
			for (uint64_t key : drawn)
				flip(key);
		}
	});
	check(set, keys, [&](uint64_t key) { return present[key / 64].load() >> key % 64 & 1; }, toggled_value);
}

static uint64_t mapped_value(uint64_t key)
{
	return key * UINT64_C(0x9E3779B97F4A7C15) ^ 0xD0;
}

/* A quarter insertions, a quarter removals, half look-ups: `map.rs`. */
template <class Set>
static void maps(const Plan &plan)
{
	const uint64_t batch = 64;
	Set set;
	std::atomic<int64_t> expected{(int64_t)(plan.entries + 1) / 2};
	update([&] { set.create(plan.entries); });
	for (uint64_t first = 0; first < plan.entries; first += batch)
		update([&] {
			for (uint64_t key = first; key < std::min(plan.entries, first + batch); key += 2)
				set.insert(key, mapped_value(key));
		});
	measure(plan, [&](unsigned, uint64_t operations, Random &random) {
		int64_t changed = 0;
		for (uint64_t i = 0; i < operations; i++) {
			const uint64_t kind = random.below(4), key = random.below(plan.entries);
			uint64_t value = 0;
			bool done = false;
			if (kind == 0) {
				update([&] {
					done = !set.find(key, value);
					if (done)
						set.insert(key, mapped_value(key));
				});
				changed += done;
			} else if (kind == 1) {
				update([&] { done = set.remove(key); });
				changed -= done;
			} else {
				look([&] { done = set.find(key, value); });
				if (has_values<Set> && done && value != mapped_value(key))
					fail("key %lu has another's value", key);
			}
		}
		expected += changed;
	});
	int64_t found = 0;
	for (uint64_t key = 0; key < plan.entries; key++) {
		uint64_t value = 0;
		bool there = false;
		look([&] { there = set.find(key, value); });
		if (has_values<Set> && there && value != mapped_value(key))
			fail("key %lu has another's value", key);
		found += there;
	}
	if (found != expected.load())
		fail("%ld keys are there, there should be %ld", found, expected.load());
}

/* Whole values overwritten: `overwrite.rs`. WIDTH: bytes of a value. */
static void overwrite(const Plan &plan)
{
	const size_t words = plan.width / sizeof(uint64_t);
	std::vector<P<uint64_t> *> places(plan.entries);
	std::atomic<uint64_t> updates{0};
	auto store = [&](P<uint64_t> *at, const uint64_t *value) {
#ifdef NO_REPLICA
		for (size_t i = 0; i < words; i++)
			at[i] = value[i];
#else
		TM::tmMemcpy((void *)at, value, plan.width);
#endif
	};
	std::vector<uint64_t> value(words);
	for (uint64_t index = 0; index < plan.entries; index++) {
		payload_fill(index, 0, value.data(), words);
		update([&] {
			P<uint64_t> *at = (P<uint64_t> *)TM::pmalloc(words * sizeof(P<uint64_t>));
			if (at == nullptr)
				fail("the pool is full");
			store(at, value.data());
			places[index] = at;
		});
	}
	measure(plan, [&](unsigned, uint64_t operations, Random &random) {
		std::vector<uint64_t> value(words);
		for (uint64_t i = 0; i < operations; i++) {
			const uint64_t index = random.below(plan.entries);
			P<uint64_t> *at = places[index];
			update([&] {
				payload_fill(index, at[0] + 1, value.data(), words);
				store(at, value.data());
			});
		}
		updates += operations;
	});
	std::vector<uint64_t> whole(words);
	uint64_t counted = 0;
	for (uint64_t index = 0; index < plan.entries; index++) {
		P<uint64_t> *at = places[index];
		look([&] {
			for (size_t i = 0; i < words; i++)
				value[i] = at[i];
		});
		payload_fill(index, value[0], whole.data(), words);
		if (value != whole)
			fail("value %lu is not what was written", index);
		counted += value[0];
	}
	if (counted != updates.load())
		fail("the values count %lu updates, %lu were made", counted, updates.load());
}

int main(int count, char **arguments)
{
	remove_files();
	const Plan plan(count, arguments);
	if (plan.workload == "sps")
		sps(plan);
	else if (plan.workload == "hash")
		toggles<HashSet>(plan);
	else if (plan.workload == "hash/ours")
		toggles<Chained<TM, P>>(plan);
	else if (plan.workload == "rbtree")
		toggles<RedBlackTree>(plan);
	else if (plan.workload == "rbtree/ours")
		toggles<Tree<TM, P>>(plan);
	else if (plan.workload == "hash-map")
		maps<HashSet>(plan);
	else if (plan.workload == "hash-map/ours")
		maps<Chained<TM, P>>(plan);
	else if (plan.workload == "ordered-map")
		maps<BTree>(plan);
	else if (plan.workload == "ordered-map/ours")
		maps<Tree<TM, P>>(plan);
	else if (plan.workload == "overwrite")
		overwrite(plan);
	else
		fail("no workload is called %s", plan.workload.c_str());
	fflush(stdout);
	/* Without their destructors, which take long and tell nothing. */
	_Exit(0);
}
