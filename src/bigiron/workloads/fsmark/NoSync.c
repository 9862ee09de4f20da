// SPDX-License-Identifier: GPL-2.0-or-later
/* Inodes that are made, a task's own directories, and new pages: the super block's lists and counters. */
/* As fs_mark.c with NoSync and files of 8 KiB. */
#define SYNC 0
#define testcase_description synchronous
#include "fsmark.c"
#undef testcase_description

char *testcase_description = "create, write and close a file of 8 KiB, 256 in each directory";
