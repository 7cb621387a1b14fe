/* Overwrites whole values at random among many; a value's first word counts its updates. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

static uint64_t updates;

static uint64_t mix(uint64_t z)
{
	z += UINT64_C(0x9E3779B97F4A7C15);
	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

/* The bytes that belong to a value's index and version, in words. */
static void fill(uint64_t index, uint64_t version, uint64_t *value, uint64_t bytes)
{
	uint64_t base = mix(index ^ mix(version));
	value[0] = version;
	for (uint64_t i = 1; i < bytes / 8; i++) {
		uint64_t word = (base ^ (i - 1)) * UINT64_C(0x9E3779B97F4A7C15);
		word ^= word >> 29;
		value[i] = (word & UINT64_C(0x3F3F3F3F3F3F3F3F)) + UINT64_C(0x2020202020202020);
	}
}

static PMEMoid *directory(PMEMobjpool *pool, const struct plan *plan)
{
	PMEMoid root = pmemobj_root(pool, plan->size * sizeof(PMEMoid));
	if (OID_IS_NULL(root))
		fail("no directory: %s", pmemobj_errormsg());
	return pmemobj_direct(root);
}

static uint64_t *scratch(const struct plan *plan)
{
	uint64_t *value = malloc(plan->width);
	if (value == NULL)
		fail("no memory for a value");
	return value;
}

static void load(PMEMobjpool *pool, const struct plan *plan)
{
	PMEMoid *values = directory(pool, plan);
	for (uint64_t i = 0; i < plan->size; i++) {
		TX_BEGIN(pool) {
			PMEMoid fresh = pmemobj_tx_alloc(plan->width, 1);
			fill(i, 0, pmemobj_direct(fresh), plan->width);
			pmemobj_tx_add_range_direct(&values[i], sizeof values[i]);
			values[i] = fresh;
		} TX_ONABORT {
			fail("loading was rolled back: %s", pmemobj_errormsg());
		} TX_END
	}
}

static void run(PMEMobjpool *pool, const struct plan *plan, uint64_t operations)
{
	PMEMoid *values = directory(pool, plan);
	uint64_t *next = scratch(plan);
	for (uint64_t done = 0; done < operations; done++) {
		uint64_t index = random_below(plan->size);
		TX_BEGIN(pool) {
			uint64_t *value = pmemobj_direct(values[index]);
			fill(index, value[0] + 1, next, plan->width);
			pmemobj_tx_add_range_direct(value, plan->width);
			memcpy(value, next, plan->width);
		} TX_ONABORT {
			fail("an update was rolled back: %s", pmemobj_errormsg());
		} TX_END
	}
	updates += operations;
	free(next);
}

static void check(PMEMobjpool *pool, const struct plan *plan)
{
	PMEMoid *values = directory(pool, plan);
	uint64_t *expected = scratch(plan);
	uint64_t counted = 0;
	for (uint64_t i = 0; i < plan->size; i++) {
		uint64_t *value = pmemobj_direct(values[i]);
		fill(i, value[0], expected, plan->width);
		if (memcmp(value, expected, plan->width) != 0)
			fail("wrong answer: a value is not what was written");
		counted += value[0];
	}
	free(expected);
	if (counted != updates)
		fail("wrong answer: the values count another number of updates");
}

const struct workload workload_overwrite = {"overwrite", load, run, check};
