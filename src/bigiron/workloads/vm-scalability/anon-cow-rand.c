// SPDX-License-Identifier: GPL-2.0-or-later
/* Anonymous pages that all tasks share until they write: the pages' counts, allocation, copies, LRU lists. */
/* As case-anon-cow-rand, by a child of the task that ends; the next one does the same. */
#define RANDOM 1
#define testcase_description in_turn
#include "anon-cow-seq.c"
#undef testcase_description

char *testcase_description = "copy 16 pages that all tasks share, by writes in random order";
