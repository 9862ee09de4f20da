// SPDX-License-Identifier: GPL-2.0-or-later
/* The disk's queue and what long reads past the page cache take of one inode. */
/* As singlestreamreaddirect.f. */
#define DIRECT O_DIRECT
#define testcase_description buffered
#include "singlestreamread.c"
#undef testcase_description

char *testcase_description = "read the next 64 KiB of a shared file, past the page cache";
