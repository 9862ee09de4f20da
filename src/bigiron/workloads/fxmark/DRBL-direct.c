// SPDX-License-Identifier: GPL-2.0-or-later
/* The disk's queue and what a read past the page cache takes of the inode. */
#define DIRECT O_DIRECT
#define testcase_description buffered
#include "DRBL.c"
#undef testcase_description

char *testcase_description = "read the same block of the task's own file, past the page cache";
