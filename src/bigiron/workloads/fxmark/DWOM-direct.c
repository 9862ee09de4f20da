// SPDX-License-Identifier: GPL-2.0-or-later
/* The lock of one inode: some file systems share it among writers that overwrite. */
#define DIRECT O_DIRECT
#define testcase_description buffered
#include "DWOM.c"
#undef testcase_description

char *testcase_description = "overwrite the task's own block of a shared file, past the page cache";
