// SPDX-License-Identifier: GPL-2.0-or-later
/* The disk's queue and what long reads past the page cache take of five inodes. */
/* As fivestreamreaddirect.f. */
#define DIRECT O_DIRECT
#define testcase_description buffered
#include "fivestreamread.c"
#undef testcase_description

char *testcase_description = "read the next 64 KiB of one of five shared files, past the page cache";
