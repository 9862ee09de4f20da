// SPDX-License-Identifier: GPL-2.0-or-later
/* The disk's queue, blocks for a file that grows, its inode's lock. */
/* As singlestreamwritedirect.f. */
#define DIRECT O_DIRECT
#define testcase_description buffered
#include "singlestreamwrite.c"
#undef testcase_description

char *testcase_description = "write the next 64 KiB of a shared file that grows, past the page cache";
