// SPDX-License-Identifier: GPL-2.0-or-later
/* Anonymous pages that all tasks share until they write: the pages' counts, allocation, copies, LRU lists. */
/* As case-anon-cow, by a child of the task that ends; the next one does the same. */
#define WRITES 1
#include "usemem.h"

#include "die_with.h"
#include "time_slices.h"

char *testcase_description = "copy 16 pages that all tasks share, by writes in address order";
char *testcase_differs = "16 MiB for each task, again and again";

static volatile char *memory;

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	memory = map_zeros(MAP_POPULATE);
}

struct ends {
	int wait, tell;
};

/* The operations are the child's; the task counts them. */
static void __attribute__((noreturn)) write_all(struct ends ends)
{
	char byte;

	for (unsigned long nr = 0; nr < pages; nr += AT_ONCE) {
		if (read(ends.wait, &byte, 1) != 1)
			_exit(1);
		touch_some(memory, nr);
		if (write(ends.tell, &byte, 1) != 1)
			_exit(1);
	}
	_exit(0);
}

static pid_t start_child(struct ends ends)
{
	pid_t task = getpid(), child = fork();

	if (child < 0)
		die("anon-cow: fork");
	if (child)
		return child;
	die_with(task);
	end_no_time_slices();
	write_all(ends);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int there[2], back[2];
	char byte = 0;

	if (pipe(there) || pipe(back))
		die("anon-cow: pipe");
	for (;;) {
		pid_t child = start_child((struct ends){ .wait = there[0], .tell = back[1] });

		for (nr = 0; nr < pages; nr += AT_ONCE) {
			if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
				die("anon-cow: pipe");
			(*iterations)++;
		}
		waitpid(child, NULL, 0);
	}
}
