// SPDX-License-Identifier: GPL-2.0-or-later
/* The task's own named pipe: its mutex, ring and pages, and the times of its inode. */
/* As fifo_test(): a message is an operation. */
#include "messages.h"

char *testcase_description = "write 1 to 4,096 bytes to the task's own FIFO and read them back";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[PATH_MAX];
	int from, to;

	own_path(path, nr, 0);
	if (mkfifo(path, 0666))
		die("fifo_test: mkfifo");
	from = open(path, O_RDONLY | O_NONBLOCK);
	to = open(path, O_RDWR | O_NONBLOCK);
	if (from < 0 || to < 0)
		die("fifo_test: open");
	pass_messages(iterations, to, from);
}

void testcase_cleanup(void)
{
	remove_folder();
}
