// SPDX-License-Identifier: GPL-2.0-or-later
/* The disk's queue, the inode's lock and times. */
#define DIRECT O_DIRECT
#define testcase_description buffered
#include "DWOL.c"
#undef testcase_description

char *testcase_description = "overwrite the same block of the task's own file, past the page cache";
