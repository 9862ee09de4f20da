// SPDX-License-Identifier: GPL-2.0-or-later
/* The disk's queue, blocks for five files that grow, their inodes' locks. */
/* As fivestreamwritedirect.f. */
#define DIRECT O_DIRECT
#define testcase_description buffered
#include "fivestreamwrite.c"
#undef testcase_description

char *testcase_description = "write the next 64 KiB of one of five shared files, past the page cache";
