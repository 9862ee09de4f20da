// SPDX-License-Identifier: GPL-2.0-or-later
/* The inode's lock and count of reads under way, the disk's queue. */
#define DIRECT O_DIRECT
#define testcase_description buffered
#include "DRBM.c"
#undef testcase_description

char *testcase_description = "read the task's own block of a shared file, past the page cache";
