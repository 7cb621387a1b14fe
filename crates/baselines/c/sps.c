/* Swaps of two random entries in an array of words. */
#include "bench.h"

#include <stdlib.h>

static uint64_t *array(PMEMobjpool *pool, const struct plan *plan)
{
	PMEMoid root = pmemobj_root(pool, plan->size * sizeof(uint64_t));
	if (OID_IS_NULL(root))
		fail("no array: %s", pmemobj_errormsg());
	return pmemobj_direct(root);
}

static void load(PMEMobjpool *pool, const struct plan *plan)
{
	uint64_t *words = array(pool, plan);
	for (uint64_t i = 0; i < plan->size; i++)
		words[i] = i;
	pmemobj_persist(pool, words, plan->size * sizeof *words);
}

static void swap(uint64_t *a, uint64_t *b)
{
	pmemobj_tx_add_range_direct(a, sizeof *a);
	pmemobj_tx_add_range_direct(b, sizeof *b);
	uint64_t held = *a;
	*a = *b;
	*b = held;
}

static void run(PMEMobjpool *pool, const struct plan *plan, uint64_t operations)
{
	uint64_t *words = array(pool, plan);
	for (uint64_t done = 0; done < operations; done++) {
		TX_BEGIN(pool) {
			for (uint64_t k = 0; k < plan->width; k++) {
				uint64_t a = random_below(plan->size);
				uint64_t b = random_below(plan->size - 1);
				swap(&words[a], &words[b + (b >= a)]);
			}
		} TX_ONABORT {
			fail("a transaction was rolled back: %s", pmemobj_errormsg());
		} TX_END
	}
}

static void check(PMEMobjpool *pool, const struct plan *plan)
{
	uint64_t *words = array(pool, plan);
	unsigned char *seen = calloc(plan->size, 1);
	if (seen == NULL)
		fail("no memory for the check");
	for (uint64_t i = 0; i < plan->size; i++)
		if (words[i] >= plan->size || seen[words[i]]++)
			fail("wrong answer: the array is not a permutation");
	free(seen);
}

const struct workload workload_sps = {"sps", load, run, check};
