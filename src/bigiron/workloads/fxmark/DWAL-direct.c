// SPDX-License-Identifier: GPL-2.0-or-later
/* The allocation of space, at once and not when it is written back. */
#define DIRECT O_DIRECT
#define testcase_description buffered
#include "DWAL.c"
#undef testcase_description

char *testcase_description = "append a block to the task's own file, past the page cache";
