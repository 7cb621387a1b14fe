/*
 * A hash map with chained entries, allocated and freed in transactions.
 *
 * It has as many buckets as keys from the start, so that it never has to grow.
 */
#include "bench.h"

struct entry {
	uint64_t key;
	uint64_t value;
	PMEMoid next;
};

struct root {
	uint64_t count;
	uint64_t buckets;
	PMEMoid bucket[];
};

static struct root *root;

static PMEMoid *bucket(uint64_t key)
{
	uint64_t hash = key * UINT64_C(0xD6E8FEB86659FD93);
	return &root->bucket[(hash ^ (hash >> 32)) % root->buckets];
}

/* The pointer to the entry with this key, or the null pointer at its chain's end. */
static PMEMoid *find_link(uint64_t key)
{
	PMEMoid *link = bucket(key);
	while (!OID_IS_NULL(*link)) {
		struct entry *entry = pmemobj_direct(*link);
		if (entry->key == key)
			break;
		link = &entry->next;
	}
	return link;
}

static int insert(PMEMobjpool *pool, uint64_t key, uint64_t value)
{
	if (!OID_IS_NULL(*find_link(key)))
		return 0;
	PMEMoid *head = bucket(key);
	TX_BEGIN(pool) {
		PMEMoid fresh = pmemobj_tx_alloc(sizeof(struct entry), 1);
		struct entry *entry = pmemobj_direct(fresh);
		entry->key = key;
		entry->value = value;
		entry->next = *head;
		pmemobj_tx_add_range_direct(head, sizeof *head);
		pmemobj_tx_add_range_direct(&root->count, sizeof root->count);
		*head = fresh;
		root->count++;
	} TX_ONABORT {
		fail("an insert was rolled back: %s", pmemobj_errormsg());
	} TX_END
	return 1;
}

static int remove_key(PMEMobjpool *pool, uint64_t key)
{
	PMEMoid *link = find_link(key);
	if (OID_IS_NULL(*link))
		return 0;
	TX_BEGIN(pool) {
		PMEMoid old = *link;
		struct entry *entry = pmemobj_direct(old);
		pmemobj_tx_add_range_direct(link, sizeof *link);
		pmemobj_tx_add_range_direct(&root->count, sizeof root->count);
		*link = entry->next;
		root->count--;
		pmemobj_tx_free(old);
	} TX_ONABORT {
		fail("a removal was rolled back: %s", pmemobj_errormsg());
	} TX_END
	return 1;
}

static int find(PMEMobjpool *pool, uint64_t key, uint64_t *value)
{
	(void)pool;
	PMEMoid *link = find_link(key);
	if (OID_IS_NULL(*link))
		return 0;
	*value = ((struct entry *)pmemobj_direct(*link))->value;
	return 1;
}

static const struct map operations_of_hash = {insert, remove_key, find};

static void load(PMEMobjpool *pool, const struct plan *plan)
{
	PMEMoid oid = pmemobj_root(pool, sizeof *root + plan->size * sizeof(PMEMoid));
	if (OID_IS_NULL(oid))
		fail("no buckets: %s", pmemobj_errormsg());
	root = pmemobj_direct(oid);
	root->buckets = plan->size;
	pmemobj_persist(pool, root, sizeof *root);
	map_load(pool, plan, &operations_of_hash);
}

static void run(PMEMobjpool *pool, const struct plan *plan, uint64_t operations)
{
	map_run(pool, plan, operations, &operations_of_hash);
}

static void check(PMEMobjpool *pool, const struct plan *plan)
{
	(void)pool;
	uint64_t count = 0;
	for (uint64_t b = 0; b < root->buckets; b++) {
		PMEMoid oid = root->bucket[b];
		while (!OID_IS_NULL(oid)) {
			struct entry *entry = pmemobj_direct(oid);
			if (entry->value != value_of(entry->key) || entry->key >= plan->size)
				fail("wrong answer: an entry nobody inserted");
			count++;
			oid = entry->next;
		}
	}
	if (count != map_expected() || root->count != count)
		fail("wrong answer: the hash map has the wrong number of keys");
}

const struct workload workload_map = {"map", load, run, check};
