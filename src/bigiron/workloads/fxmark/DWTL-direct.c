// SPDX-License-Identifier: GPL-2.0-or-later
/* Space that is given back, without pages of the page cache. */
#define DIRECT O_DIRECT
#define testcase_description buffered
#include "DWTL.c"
#undef testcase_description

char *testcase_description = "truncate the task's own file by a block, past the page cache";
