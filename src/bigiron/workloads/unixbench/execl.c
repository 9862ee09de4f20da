// SPDX-License-Identifier: GPL-2.0-or-later
/* A memory map that is replaced by another: its page tables, per-CPU counters, the file that is executed. */
/* As execl.c; a child executes itself, as often as its task asks it to by a pipe. */
#include "unixbench.h"

#include "die_with.h"
#include "small_program.h"

char *testcase_description = "a process executes itself";
char *testcase_differs = "no dynamic linker";

static char path[] = "/tmp/unixbench.execl.XXXXXX";

struct ends {
	int wait, tell;
};

static void again(struct ends ends)
{
	char wait[16], tell[16];

	snprintf(wait, sizeof(wait), "%d", ends.wait);
	snprintf(tell, sizeof(tell), "%d", ends.tell);
	execl(path, path, wait, tell, path, NULL);
	die("execl: execl");
}

/* Before main(), in what was executed. */
static void __attribute__((constructor)) executed(int argc, char **argv)
{
	struct ends ends;
	char byte = 0;

	if (argc != 4 || strcmp(argv[0], argv[3]) || strncmp(argv[0], path, strlen(path) - 6))
		return;
	strcpy(path, argv[0]);
	ends = (struct ends){ atoi(argv[1]), atoi(argv[2]) };
	if (write(ends.tell, &byte, 1) != 1 || read(ends.wait, &byte, 1) != 1)
		_exit(0); /* the task has ended */
	again(ends);
}

static struct ends start_child(void)
{
	int there[2], back[2];
	pid_t task = getpid();

	if (pipe2(there, O_CLOEXEC) || pipe2(back, O_CLOEXEC))
		die("execl: pipe");
	if (!fork()) {
		die_with(task);
		if (fcntl(there[0], F_SETFD, 0) || fcntl(back[1], F_SETFD, 0))
			die("execl: fcntl");
		again((struct ends){ there[0], back[1] });
	}
	close(there[0]);
	close(back[1]);
	return (struct ends){ .wait = back[0], .tell = there[1] };
}

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	if (make_small_program(path))
		die("execl: program");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct ends child = start_child();
	char byte = 0;

	(void)nr;
	while (1) {
		if (read(child.wait, &byte, 1) != 1 || write(child.tell, &byte, 1) != 1)
			die("execl: pipe");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	unlink(path);
}
