// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the static libelf of elfutils 0.192, Debian 13's, refers to and does not have (sourceware's bug 32293, fixed in
 * 0.193): search trees, each a root and then a lock, of which one thread needs no more than the root. Weak: a library
 * that has them uses its own.
 */
#define _GNU_SOURCE
#include <search.h>
#include <stddef.h>

#define WEAK __attribute__((weak))

WEAK void eu_search_tree_init(void **root)
{
	*root = NULL;
}

WEAK void eu_search_tree_fini(void **root, void (*free_node)(void *))
{
	tdestroy(*root, free_node);
	*root = NULL;
}

WEAK void *eu_tsearch(const void *key, void **root, int (*compare)(const void *, const void *))
{
	return tsearch(key, root, compare);
}

WEAK void *eu_tdelete(const void *key, void **root, int (*compare)(const void *, const void *))
{
	return tdelete(key, root, compare);
}
