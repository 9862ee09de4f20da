// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * touched_pages_test OPERATIONS, linked with a workload and --wrap=mmap: how many places a task touches in what it has
 * mapped, where the kernel's pages are said to have PAGE_BYTES bytes. Each place is protected until it is touched.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SMALLEST_PAGE 4096UL

extern void testcase_prepare(unsigned long nr_tasks) __attribute__((weak));
extern void testcase(unsigned long long *iterations, unsigned long nr);
extern void testcase_cleanup(void) __attribute__((weak));
extern void *__real_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);

static struct {
	volatile unsigned long long operations;
	volatile unsigned long touched, most; /* since the last mmap(); of any */
} *counted;

static char *start;
static size_t length;
static int protection;

int getpagesize(void)
{
	return atoi(getenv("PAGE_BYTES"));
}

void *__wrap_mmap(void *address, size_t bytes, int allowed, int flags, int fd, off_t offset)
{
	char *memory = __real_mmap(address, bytes, allowed, flags, fd, offset);

	if (memory == MAP_FAILED || allowed == PROT_NONE)
		return memory;
	start = memory;
	length = bytes;
	protection = allowed;
	counted->touched = 0;
	mprotect(start, length, PROT_NONE);
	return memory;
}

static void count_touch(int signal, siginfo_t *info, void *context)
{
	char *place = (char *)((uintptr_t)info->si_addr & ~(SMALLEST_PAGE - 1));

	(void)signal;
	(void)context;
	if (place < start || place >= start + length || mprotect(place, SMALLEST_PAGE, protection))
		_exit(1);
	if (++counted->touched > counted->most)
		counted->most = counted->touched;
}

int main(int argc, char **argv)
{
	struct sigaction on_touch = { .sa_sigaction = count_touch, .sa_flags = SA_SIGINFO };
	unsigned long long operations;
	pid_t task;

	if (argc != 2)
		return 2;
	operations = strtoull(argv[1], NULL, 10);
	counted = __real_mmap(NULL, sizeof(*counted), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (testcase_prepare)
		testcase_prepare(1);
	task = fork();
	if (!task) {
		sigaction(SIGSEGV, &on_touch, NULL);
		testcase((unsigned long long *)&counted->operations, 0);
	}
	while (counted->operations < operations && !waitpid(task, NULL, WNOHANG))
		usleep(1000);
	kill(task, SIGKILL);
	waitpid(task, NULL, 0);
	if (testcase_cleanup)
		testcase_cleanup();
	printf("%lu\n", counted->most);
	return counted->operations < operations;
}
