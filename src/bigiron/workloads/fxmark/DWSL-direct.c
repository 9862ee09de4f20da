// SPDX-License-Identifier: GPL-2.0-or-later
/* The journal's or log's commit, with the data on the disk already. */
#define DIRECT O_DIRECT
#define testcase_description buffered
#include "DWSL.c"
#undef testcase_description

char *testcase_description = "overwrite a block of the task's own file, and fsync, past the page cache";
