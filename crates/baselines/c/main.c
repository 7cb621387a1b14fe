/*
 * Runs one workload on libpmemobj and prints one line of JSON.
 *
 * usage: bench WORKLOAD POOL-FILE POOL-BYTES SIZE WIDTH OPERATIONS WARM-UP SEED
 */
#include "bench.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t random_state;

noreturn void fail(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fputs("error: ", stderr);
	vfprintf(stderr, format, arguments);
	fputs("\n", stderr);
	va_end(arguments);
	exit(1);
}

uint64_t random_word(void)
{
	uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15);
	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

uint64_t random_below(uint64_t bound)
{
	return (uint64_t)(((unsigned __int128)random_word() * bound) >> 64);
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static const struct workload *find_workload(const char *name)
{
	const struct workload *all[] = {&workload_sps, &workload_map, &workload_ordered,
					&workload_overwrite};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	fail("no workload is called %s", name);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);
	if (*text == '\0' || *end != '\0')
		fail("%s is not a number", text);
	return value;
}

int main(int count, char **arguments)
{
	if (count != 9)
		fail("usage: bench WORKLOAD POOL-FILE POOL-BYTES SIZE WIDTH OPERATIONS WARM-UP SEED");
	const struct workload *workload = find_workload(arguments[1]);
	struct plan plan = {.size = number(arguments[4]),
			    .width = number(arguments[5]),
			    .operations = number(arguments[6]),
			    .warm_up = number(arguments[7]),
			    .seed = number(arguments[8])};
	random_state = plan.seed;
	PMEMobjpool *pool = pmemobj_create(arguments[2], "bench", number(arguments[3]), 0600);
	if (pool == NULL)
		fail("no pool: %s", pmemobj_errormsg());

	workload->load(pool, &plan);
	workload->run(pool, &plan, plan.warm_up);
	double start = seconds();
	workload->run(pool, &plan, plan.operations);
	double elapsed = seconds() - start;
	workload->check(pool, &plan);
	pmemobj_close(pool);
	printf("{\"operations\":%" PRIu64 ",\"seconds\":%.9f}\n", plan.operations, elapsed);
	return 0;
}
