/*
 * The chained hash table and the red-black tree of perdura-workloads (`hash.rs`, `rbtree`), word for word, on a peer's
 * transactions: with them the engines differ, and the data structures do not.
 */
#pragma once

#include <cstdint>

/* An array of bucket heads, and nodes of next, key and value. Nothing counts its entries, and it never grows. */
template <class TM, template <class> class P>
class Chained {
	struct Node {
		P<Node *> next;
		P<uint64_t> key, value;
		Node(Node *next, uint64_t key, uint64_t value) : next(next), key(key), value(value) {}
	};
	using Link = P<Node *>;

	uint64_t buckets = 0;
	Link *heads = nullptr;

	Link *head(uint64_t key) const
	{
		uint64_t mixed = key * UINT64_C(0x9E3779B97F4A7C15);
		return heads + (uint64_t)(((unsigned __int128)mixed * buckets) >> 64);
	}

	/* The link to the key's node, or the null one at the end of its chain. */
	Link *follow(uint64_t key) const
	{
		Link *link = head(key);
		for (Node *node; (node = link->pload()) != nullptr && node->key.pload() != key;)
			link = (Link *)(void *)node;
		return link;
	}

public:
	/* The heads are null as the pool is: its memory is not used twice before. */
	void create(uint64_t entries)
	{
		buckets = entries;
		heads = (Link *)TM::pmalloc(entries * sizeof(Link));
	}

	bool find(uint64_t key, uint64_t &value) const
	{
		Node *node = follow(key)->pload();
		if (node != nullptr)
			value = node->value.pload();
		return node != nullptr;
	}

	/* A key that is not there. */
	void insert(uint64_t key, uint64_t value)
	{
		Link *link = head(key);
		link->pstore(TM::template tmNew<Node>(link->pload(), key, value));
	}

	bool remove(uint64_t key)
	{
		Link *link = follow(key);
		Node *node = link->pload();
		if (node == nullptr)
			return false;
		link->pstore(node->next.pload());
		TM::tmDelete(node);
		return true;
	}

	void toggle(uint64_t key, uint64_t value)
	{
		if (!remove(key))
			insert(key, value);
	}
};

/* A red-black tree with parent pointers; its leaves are null, and black. */
template <class TM, template <class> class P>
class Tree {
	enum Side { left, right };
	enum : uint64_t { black, red };

	struct Node {
		P<Node *> child[2];
		P<Node *> parent;
		P<uint64_t> colour, key, value;
		Node(Node *parent, uint64_t key, uint64_t value) : parent(parent), colour(red), key(key), value(value)
		{
			child[left].pstore(nullptr);
			child[right].pstore(nullptr);
		}
	};

	P<Node *> *root = nullptr;

	static Side other(Side side) { return side == left ? right : left; }
	static Node *child(Node *node, Side side) { return node->child[side].pload(); }
	static Node *parent(Node *node) { return node->parent.pload(); }
	static bool is_red(Node *node) { return node != nullptr && node->colour.pload() == red; }
	static Side side_of(Node *node, Node *parent) { return child(parent, left) == node ? left : right; }

	/* Writes only changed words. */
	static void paint(Node *node, uint64_t colour)
	{
		if (node->colour.pload() != colour)
			node->colour.pstore(colour);
	}

	/* Makes `node` (perhaps null) that child of `parent`; the root if that is null. */
	void hang(Node *node, Node *parent, Side side)
	{
		if (parent == nullptr)
			root->pstore(node);
		else
			parent->child[side].pstore(node);
		if (node != nullptr)
			node->parent.pstore(parent);
	}

	void replace(Node *old, Node *node)
	{
		Node *above = parent(old);
		hang(node, above, above == nullptr ? left : side_of(old, above));
	}

	/* Rotates the node down to `side`; its other child takes its place. */
	void rotate(Node *node, Side side)
	{
		Node *up = child(node, other(side)), *inner = child(up, side);
		replace(node, up);
		hang(inner, node, other(side));
		hang(node, up, side);
	}

	/* The node with this key, and where it would hang if there is none. */
	Node *search(uint64_t key, Node *&parent, Side &side) const
	{
		Node *node = root->pload();
		parent = nullptr;
		side = left;
		while (node != nullptr) {
			const uint64_t here = node->key.pload();
			if (here == key)
				return node;
			parent = node;
			side = key < here ? left : right;
			node = child(node, side);
		}
		return nullptr;
	}

	/* Repairs a red node with a red parent. */
	void settle(Node *node)
	{
		for (;;) {
			Node *above = parent(node);
			if (above == nullptr)
				return paint(node, black);
			if (!is_red(above))
				return;
			Node *grandparent = parent(above);
			const Side side = side_of(above, grandparent);
			Node *uncle = child(grandparent, other(side));
			if (!is_red(uncle)) {
				Node *top = above;
				if (side_of(node, above) != side) {
					rotate(above, side);
					top = node;
				}
				paint(top, black);
				paint(grandparent, red);
				return rotate(grandparent, other(side));
			}
			paint(above, black);
			paint(uncle, black);
			paint(grandparent, red);
			node = grandparent;
		}
	}

	void attach(uint64_t key, uint64_t value, Node *above, Side side)
	{
		Node *node = TM::template tmNew<Node>(above, key, value);
		if (above == nullptr)
			root->pstore(node);
		else
			above->child[side].pstore(node);
		settle(node);
	}

	/* Lets the node and its successor, the leftmost one of its right subtree, change places and colours. */
	void exchange(Node *node, Node *successor)
	{
		Node *l = child(node, left), *r = child(node, right), *below = child(successor, right);
		Node *above = parent(successor);
		const uint64_t colour = node->colour.pload(), successors = successor->colour.pload();
		replace(node, successor);
		hang(l, successor, left);
		if (successor == r) {
			hang(node, successor, right);
		} else {
			hang(r, successor, right);
			hang(node, above, left);
		}
		hang(nullptr, node, left);
		hang(below, node, right);
		paint(successor, colour);
		paint(node, successors);
	}

	/* Takes a node with at most one child out of the tree. */
	void unhook(Node *node)
	{
		Node *only = child(node, child(node, left) == nullptr ? right : left), *above = parent(node);
		const bool was_red = is_red(node);
		const Side hung = above == nullptr ? left : side_of(node, above);
		hang(only, above, hung);
		if (was_red)
			return;
		if (only != nullptr)
			return paint(only, black);
		make_up(above, hung);
	}

	void detach(Node *node)
	{
		if (child(node, left) != nullptr && child(node, right) != nullptr) {
			Node *successor = child(node, right);
			while (Node *next = child(successor, left))
				successor = next;
			exchange(node, successor);
		}
		unhook(node);
		TM::tmDelete(node);
	}

	/* Below `above` on `side` a black node is missing. */
	void make_up(Node *above, Side side)
	{
		while (above != nullptr) {
			Node *sibling = child(above, other(side));
			if (is_red(sibling)) {
				paint(sibling, black);
				paint(above, red);
				rotate(above, side);
				sibling = child(above, other(side));
			}
			Node *near = child(sibling, side), *far = child(sibling, other(side));
			if (is_red(near) || is_red(far)) {
				if (!is_red(far)) {
					paint(near, black);
					paint(sibling, red);
					rotate(sibling, other(side));
					far = sibling;
					sibling = near;
				}
				paint(sibling, above->colour.pload());
				paint(above, black);
				paint(far, black);
				return rotate(above, side);
			}
			paint(sibling, red);
			if (is_red(above))
				return paint(above, black);
			Node *higher = parent(above);
			if (higher != nullptr)
				side = side_of(above, higher);
			above = higher;
		}
	}

public:
	void create(uint64_t)
	{
		root = (P<Node *> *)TM::pmalloc(sizeof(P<Node *>));
		root->pstore(nullptr);
	}

	bool find(uint64_t key, uint64_t &value) const
	{
		Node *above;
		Side side;
		Node *node = search(key, above, side);
		if (node != nullptr)
			value = node->value.pload();
		return node != nullptr;
	}

	/* A key that is not there. */
	void insert(uint64_t key, uint64_t value)
	{
		Node *above;
		Side side;
		search(key, above, side);
		attach(key, value, above, side);
	}

	bool remove(uint64_t key)
	{
		Node *above;
		Side side;
		Node *node = search(key, above, side);
		if (node != nullptr)
			detach(node);
		return node != nullptr;
	}

	void toggle(uint64_t key, uint64_t value)
	{
		Node *above;
		Side side;
		Node *node = search(key, above, side);
		if (node != nullptr)
			detach(node);
		else
			attach(key, value, above, side);
	}
};
