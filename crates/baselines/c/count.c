/*
 * Counts what libpmemobj asks libpmem for: preloaded, these functions stand before libpmem's.
 * At its end the process prints the fences and the written-back lines to standard error, as JSON.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <libpmem.h>
#include <stdint.h>
#include <stdio.h>

enum { LINE = 64 };

static uint64_t fences, lines;
/* Calls that are running: libpmem's functions call each other. */
static int depth;

static uint64_t lines_in(const void *at, size_t len)
{
	return len == 0 ? 0 : ((uintptr_t)at + len - 1) / LINE - (uintptr_t)at / LINE + 1;
}

/* Counts a call, unless it is made by another one, and makes it. */
#define COUNT(name, arguments, more_fences, more_lines)                                            \
	do {                                                                                       \
		static __typeof__(&name) next;                                                     \
		if (next == NULL)                                                                  \
			next = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                         \
		if (depth == 0) {                                                                  \
			fences += (more_fences);                                                   \
			lines += (more_lines);                                                     \
		}                                                                                  \
		depth++;                                                                           \
		next arguments;                                                                    \
		depth--;                                                                           \
	} while (0)

void pmem_flush(const void *at, size_t len)
{
	COUNT(pmem_flush, (at, len), 0, lines_in(at, len));
}

void pmem_drain(void)
{
	COUNT(pmem_drain, (), 1, 0);
}

void pmem_persist(const void *at, size_t len)
{
	COUNT(pmem_persist, (at, len), 1, lines_in(at, len));
}

#define STORE(name, source)                                                                        \
	void *name(void *to, source from, size_t len, unsigned flags)                              \
	{                                                                                          \
		COUNT(name, (to, from, len, flags),                                                \
		      (flags & (PMEM_F_MEM_NODRAIN | PMEM_F_MEM_NOFLUSH)) == 0,                    \
		      (flags & PMEM_F_MEM_NOFLUSH) == 0 ? lines_in(to, len) : 0);                  \
		return to;                                                                         \
	}

STORE(pmem_memcpy, const void *)
STORE(pmem_memmove, const void *)
STORE(pmem_memset, int)

__attribute__((destructor)) static void print(void)
{
	fprintf(stderr, "{\"fences\":%llu,\"lines\":%llu}\n", (unsigned long long)fences,
		(unsigned long long)lines);
}
