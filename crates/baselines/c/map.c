/* What both maps do: 25 % inserts, 25 % removals, 50 % look-ups, on half-full key domain. */
#include "bench.h"

static uint64_t expected;

void map_load(PMEMobjpool *pool, const struct plan *plan, const struct map *map)
{
	for (uint64_t key = 0; key < plan->size; key++) {
		if (!is_loaded(key))
			continue;
		if (!map->insert(pool, key, value_of(key)))
			fail("wrong answer: key was there before it was inserted");
		expected++;
	}
}

void map_run(PMEMobjpool *pool, const struct plan *plan, uint64_t operations,
	     const struct map *map)
{
	for (uint64_t done = 0; done < operations; done++) {
		uint64_t kind = random_below(4);
		uint64_t key = random_below(plan->size);
		uint64_t value;
		if (kind == 0)
			expected += (uint64_t)map->insert(pool, key, value_of(key));
		else if (kind == 1)
			expected -= (uint64_t)map->remove(pool, key);
		else if (map->find(pool, key, &value) && value != value_of(key))
			fail("wrong answer: a key has another's value");
	}
}

uint64_t map_expected(void)
{
	return expected;
}
