/*
 * Common to the libpmemobj programs: parameters, random numbers, failing.
 *
 * Each workload makes its data, runs, and checks its own answer, exactly as its Rust twin in
 * crates/workloads does.
 */
#ifndef BENCH_H
#define BENCH_H

#include <libpmemobj.h>
#include <stdint.h>
#include <stdnoreturn.h>

/* What to run. */
struct plan {
	uint64_t size;       /* entries, keys or values */
	uint64_t width;      /* swaps in a transaction, or bytes in a value */
	uint64_t operations; /* measured */
	uint64_t warm_up;    /* before those */
	uint64_t seed;
};

/* One workload: `load` once, `run` for the warm-up and again for the measurement, `check`. */
struct workload {
	const char *name;
	void (*load)(PMEMobjpool *pool, const struct plan *plan);
	void (*run)(PMEMobjpool *pool, const struct plan *plan, uint64_t operations);
	void (*check)(PMEMobjpool *pool, const struct plan *plan);
};

extern const struct workload workload_sps;
extern const struct workload workload_map;
extern const struct workload workload_ordered;
extern const struct workload workload_overwrite;

/* Prints "error: ..." and ends the process with status 1. */
noreturn void fail(const char *format, ...);

/* Any 64 bits. */
uint64_t random_word(void);

/* A number below `bound`. */
uint64_t random_below(uint64_t bound);

/* The value that belongs to a key of the maps. */
static inline uint64_t value_of(uint64_t key)
{
	return key * UINT64_C(0x9E3779B97F4A7C15) ^ 0xD0;
}

/* Whether a key of the maps is there from the start: half of them are. */
static inline int is_loaded(uint64_t key)
{
	return key % 2 == 0;
}

/* What the maps' operations must do; the loop is the same for both. */
struct map {
	int (*insert)(PMEMobjpool *pool, uint64_t key, uint64_t value); /* 1: it was not there */
	int (*remove)(PMEMobjpool *pool, uint64_t key);                 /* 1: it was there */
	int (*find)(PMEMobjpool *pool, uint64_t key, uint64_t *value);  /* 1: it is there */
};

void map_load(PMEMobjpool *pool, const struct plan *plan, const struct map *map);
void map_run(PMEMobjpool *pool, const struct plan *plan, uint64_t operations,
	     const struct map *map);

/* Keys that should be in the map now. */
uint64_t map_expected(void);

#endif
