// SPDX-License-Identifier: GPL-2.0-or-later
/* Inodes that are made, in the task's own directories; new pages; fsync: blocks of the disk, the journal or the log. */
/* As fs_mark.c with fsyncBeforeClose and files of 8 KiB. A task that has made 1,024, not 4,096, removes them. */
#define SYNC 1
#include "fsmark.h"

char *testcase_description = "create, write, fsync and close a file of 8 KiB, 256 in each directory";
