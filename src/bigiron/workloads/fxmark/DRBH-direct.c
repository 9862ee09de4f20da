// SPDX-License-Identifier: GPL-2.0-or-later
/* The inode's lock and count of reads under way, one block of the disk. */
#define DIRECT O_DIRECT
#define testcase_description buffered
#include "DRBH.c"
#undef testcase_description

char *testcase_description = "read the same block of a shared file, past the page cache";
