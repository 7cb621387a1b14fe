/*
 * A B-tree of order 8: up to seven keys and eight children in a node.
 *
 * Full nodes are split, and minimal ones filled, on the way down, so that an operation never
 * has to come back up. A node is snapshotted whole before its first change.
 */
#include "bench.h"

#include <string.h>

#define MOST 7
#define LEAST 3

struct item {
	uint64_t key;
	uint64_t value;
};

struct node {
	uint64_t count;
	struct item item[MOST];
	PMEMoid child[MOST + 1];
};

struct root {
	PMEMoid top;
};

static struct root *root;

static struct node *node_of(PMEMoid oid)
{
	return pmemobj_direct(oid);
}

static int is_leaf(const struct node *node)
{
	return OID_IS_NULL(node->child[0]);
}

static void snapshot(struct node *node)
{
	pmemobj_tx_add_range_direct(node, sizeof *node);
}

/* The first item that is not before `key`. */
static uint64_t position(const struct node *node, uint64_t key)
{
	uint64_t at = 0;
	while (at < node->count && node->item[at].key < key)
		at++;
	return at;
}

static int holds(const struct node *node, uint64_t at, uint64_t key)
{
	return at < node->count && node->item[at].key == key;
}

/* Makes room for an item at `at`, and for the child after it. */
static void open_gap(struct node *node, uint64_t at)
{
	uint64_t after = node->count - at;
	memmove(&node->item[at + 1], &node->item[at], after * sizeof(struct item));
	memmove(&node->child[at + 2], &node->child[at + 1], after * sizeof(PMEMoid));
	node->count++;
}

/* Takes away the item at `at`, and the child after it. */
static void close_gap(struct node *node, uint64_t at)
{
	uint64_t after = --node->count - at;
	memmove(&node->item[at], &node->item[at + 1], after * sizeof(struct item));
	memmove(&node->child[at + 1], &node->child[at + 2], after * sizeof(PMEMoid));
	node->child[node->count + 1] = OID_NULL;
}

/* Splits the full child at `at`: its middle item comes up into `parent`. */
static void split(struct node *parent, uint64_t at)
{
	PMEMoid fresh = pmemobj_tx_zalloc(sizeof(struct node), 2);
	struct node *left = node_of(parent->child[at]);
	struct node *right = node_of(fresh);
	snapshot(parent);
	snapshot(left);
	right->count = LEAST;
	memcpy(right->item, &left->item[LEAST + 1], LEAST * sizeof(struct item));
	memcpy(right->child, &left->child[LEAST + 1], (LEAST + 1) * sizeof(PMEMoid));
	left->count = LEAST;
	memset(&left->child[LEAST + 1], 0, (LEAST + 1) * sizeof(PMEMoid));
	open_gap(parent, at);
	parent->item[at] = left->item[LEAST];
	parent->child[at + 1] = fresh;
}

static void insert_into(struct node *node, struct item item)
{
	for (;;) {
		uint64_t at = position(node, item.key);
		if (is_leaf(node)) {
			snapshot(node);
			open_gap(node, at);
			node->item[at] = item;
			return;
		}
		if (node_of(node->child[at])->count == MOST) {
			split(node, at);
			at += node->item[at].key < item.key;
		}
		node = node_of(node->child[at]);
	}
}

static void grow_root(void)
{
	PMEMoid fresh = pmemobj_tx_zalloc(sizeof(struct node), 2);
	node_of(fresh)->child[0] = root->top;
	pmemobj_tx_add_range_direct(root, sizeof *root);
	root->top = fresh;
	split(node_of(fresh), 0);
}

static int find(PMEMobjpool *pool, uint64_t key, uint64_t *value)
{
	(void)pool;
	const struct node *node = node_of(root->top);
	for (;;) {
		uint64_t at = position(node, key);
		if (holds(node, at, key)) {
			*value = node->item[at].value;
			return 1;
		}
		if (is_leaf(node))
			return 0;
		node = node_of(node->child[at]);
	}
}

static int insert(PMEMobjpool *pool, uint64_t key, uint64_t value)
{
	uint64_t old;
	if (find(pool, key, &old))
		return 0;
	TX_BEGIN(pool) {
		if (node_of(root->top)->count == MOST)
			grow_root();
		insert_into(node_of(root->top), (struct item){key, value});
	} TX_ONABORT {
		fail("an insert was rolled back: %s", pmemobj_errormsg());
	} TX_END
	return 1;
}

/* Joins the children on both sides of the item at `at`; returns the joined one. */
static struct node *merge(struct node *parent, uint64_t at)
{
	struct node *left = node_of(parent->child[at]);
	PMEMoid emptied = parent->child[at + 1];
	const struct node *right = node_of(emptied);
	snapshot(parent);
	snapshot(left);
	left->item[left->count] = parent->item[at];
	memcpy(&left->item[left->count + 1], right->item, right->count * sizeof(struct item));
	memcpy(&left->child[left->count + 1], right->child,
	       (right->count + 1) * sizeof(PMEMoid));
	left->count += right->count + 1;
	close_gap(parent, at);
	pmemobj_tx_free(emptied);
	return left;
}

/* Moves an item from the left neighbour of the child at `at` through the parent. */
static void borrow_left(struct node *parent, uint64_t at)
{
	struct node *left = node_of(parent->child[at - 1]);
	struct node *child = node_of(parent->child[at]);
	snapshot(parent);
	snapshot(left);
	snapshot(child);
	PMEMoid first = child->child[0];
	open_gap(child, 0);
	child->child[1] = first;
	child->item[0] = parent->item[at - 1];
	child->child[0] = left->child[left->count];
	parent->item[at - 1] = left->item[left->count - 1];
	close_gap(left, left->count - 1);
}

/* Moves an item from the right neighbour of the child at `at` through the parent. */
static void borrow_right(struct node *parent, uint64_t at)
{
	struct node *child = node_of(parent->child[at]);
	struct node *right = node_of(parent->child[at + 1]);
	snapshot(parent);
	snapshot(child);
	snapshot(right);
	child->item[child->count] = parent->item[at];
	child->child[child->count + 1] = right->child[0];
	child->count++;
	parent->item[at] = right->item[0];
	right->child[0] = right->child[1];
	close_gap(right, 0);
}

/* The child at `at`, with an item to spare. */
static struct node *filled_child(struct node *parent, uint64_t at)
{
	struct node *child = node_of(parent->child[at]);
	if (child->count > LEAST)
		return child;
	if (at > 0 && node_of(parent->child[at - 1])->count > LEAST)
		borrow_left(parent, at);
	else if (at < parent->count && node_of(parent->child[at + 1])->count > LEAST)
		borrow_right(parent, at);
	else
		return merge(parent, at < parent->count ? at : at - 1);
	return child;
}

/* Takes the last (or the first) item out of the subtree under `node`. */
static struct item take_end(struct node *node, int last)
{
	while (!is_leaf(node))
		node = filled_child(node, last ? node->count : 0);
	uint64_t at = last ? node->count - 1 : 0;
	struct item item = node->item[at];
	snapshot(node);
	close_gap(node, at);
	return item;
}

static void remove_from(struct node *node, uint64_t key)
{
	for (;;) {
		uint64_t at = position(node, key);
		if (!holds(node, at, key)) {
			node = filled_child(node, at);
			continue;
		}
		if (is_leaf(node)) {
			snapshot(node);
			close_gap(node, at);
			return;
		}
		struct node *left = node_of(node->child[at]);
		struct node *right = node_of(node->child[at + 1]);
		if (left->count <= LEAST && right->count <= LEAST) {
			node = merge(node, at);
			continue;
		}
		snapshot(node);
		node->item[at] = left->count > LEAST ? take_end(left, 1) : take_end(right, 0);
		return;
	}
}

static void shrink_root(void)
{
	struct node *top = node_of(root->top);
	if (top->count > 0 || is_leaf(top))
		return;
	PMEMoid emptied = root->top;
	pmemobj_tx_add_range_direct(root, sizeof *root);
	root->top = top->child[0];
	pmemobj_tx_free(emptied);
}

static int remove_key(PMEMobjpool *pool, uint64_t key)
{
	uint64_t old;
	if (!find(pool, key, &old))
		return 0;
	TX_BEGIN(pool) {
		remove_from(node_of(root->top), key);
		shrink_root();
	} TX_ONABORT {
		fail("a removal was rolled back: %s", pmemobj_errormsg());
	} TX_END
	return 1;
}

static const struct map operations_of_tree = {insert, remove_key, find};

static void load(PMEMobjpool *pool, const struct plan *plan)
{
	PMEMoid oid = pmemobj_root(pool, sizeof *root);
	if (OID_IS_NULL(oid))
		fail("no root: %s", pmemobj_errormsg());
	root = pmemobj_direct(oid);
	TX_BEGIN(pool) {
		pmemobj_tx_add_range_direct(root, sizeof *root);
		root->top = pmemobj_tx_zalloc(sizeof(struct node), 2);
	} TX_ONABORT {
		fail("no first node: %s", pmemobj_errormsg());
	} TX_END
	map_load(pool, plan, &operations_of_tree);
}

static void run(PMEMobjpool *pool, const struct plan *plan, uint64_t operations)
{
	map_run(pool, plan, operations, &operations_of_tree);
}

/* Walks a subtree whose keys lie in [low, high); returns how many there are. */
static uint64_t walk(const struct node *node, uint64_t low, uint64_t high, int is_top)
{
	uint64_t keys = node->count;
	if (!is_top && node->count < LEAST)
		fail("wrong answer: a node has too few keys");
	for (uint64_t i = 0; i <= node->count; i++) {
		uint64_t end = i < node->count ? node->item[i].key : high;
		if (end < low || end > high)
			fail("wrong answer: keys are out of order");
		if (!is_leaf(node))
			keys += walk(node_of(node->child[i]), low, end, 0);
		if (i < node->count && node->item[i].value != value_of(node->item[i].key))
			fail("wrong answer: a key has another's value");
		low = end + 1;
	}
	return keys;
}

static void check(PMEMobjpool *pool, const struct plan *plan)
{
	(void)pool;
	if (walk(node_of(root->top), 0, plan->size, 1) != map_expected())
		fail("wrong answer: the tree has the wrong number of keys");
}

const struct workload workload_ordered = {"ordered", load, run, check};
