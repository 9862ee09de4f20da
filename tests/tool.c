// SPDX-License-Identifier: GPL-2.0-or-later
/* A program of the root file systems of tests/test_programs_in_vms.py, static: its first argument says what it does. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../guest/mark/bigiron.h"

static void call(long times)
{
	for (long i = 0; i < times; i++)
		syscall(SYS_getppid);
}

static int serve(int port)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int socket_fd = socket(AF_INET, SOCK_STREAM, 0), client;
	char byte;

	if (bind(socket_fd, (struct sockaddr *)&here, sizeof(here)) || listen(socket_fd, 16))
		return perror("serve"), 1;
	for (;;) {
		client = accept(socket_fd, NULL, NULL);
		while (read(client, &byte, 1) == 1)
			if (write(client, &byte, 1) != 1)
				break;
		close(client);
	}
}

static int ask(int port, long times)
{
	struct sockaddr_in there = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char byte = 'x';

	if (connect(fd, (struct sockaddr *)&there, sizeof(there)))
		return perror("ask"), 1;
	for (long i = 0; i < times; i++)
		if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
			return perror("ask"), 1;
	printf("asked %ld times\n", times);
	return 0;
}

static int say(void)
{
	struct rlimit files;
	char folder[256], group[256] = "";
	FILE *cgroup = fopen("/proc/self/cgroup", "r");
	cpu_set_t cpus;

	getrlimit(RLIMIT_NOFILE, &files);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	if (!cgroup || !fgets(group, sizeof(group), cgroup))
		return 1;
	printf("uid %d in %s on %d CPUs with %lu files, %s in %s", getuid(), getcwd(folder, sizeof(folder)),
	       CPU_COUNT(&cpus), (unsigned long)files.rlim_cur, getenv("FRUIT"), group);
	return 0;
}

/* How much of a file is in the page cache, and whether another one is there. */
static int show_cached(const char *path, const char *other)
{
	static unsigned char in_memory[1024];
	long cached = 0, pages;
	struct stat status;
	int fd = open(path, O_RDONLY);
	void *mapped;

	if (fd < 0 || fstat(fd, &status))
		return perror(path), 1;
	pages = (status.st_size + 4095) / 4096;
	mapped = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (pages > (long)sizeof(in_memory) || mapped == MAP_FAILED || mincore(mapped, status.st_size, in_memory))
		return perror("mincore"), 1;
	for (long page = 0; page < pages; page++)
		cached += in_memory[page] & 1;
	printf("%ld of %ld pages of %s are cached; %s: %s\n", cached, pages, path, other,
	       access(other, F_OK) ? strerror(errno) : "Success");
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	long number = argc > 2 ? atol(argv[2]) : 0;

	if (!strcmp(what, "count")) {
		call(number);
		printf("did %ld operations\n", number);
	} else if (!strcmp(what, "parts")) {
		call(10);
		printf("beginning now\n");
		fflush(stdout);
		usleep(1000);
		call(number);
		printf("ended now\n");
		fflush(stdout);
		usleep(1000);
		for (;;)
			call(1);
	} else if (!strcmp(what, "marks")) {
		call(10);
		bigiron_begin();
		call(number);
		bigiron_end();
		call(10);
	} else if (!strcmp(what, "run-marks")) {
		const char *const marks[] = { "begin", "end" };

		for (int i = 0; i < 2; i++) {
			if (!fork()) {
				execlp("bigiron-mark", "bigiron-mark", marks[i], NULL);
				_exit(1);
			}
			wait(NULL);
			call(i ? 10 : number);
		}
	} else if (!strcmp(what, "serve")) {
		return serve(number);
	} else if (!strcmp(what, "ask")) {
		return ask(number, atol(argv[3]));
	} else if (!strcmp(what, "say")) {
		return say();
	} else if (!strcmp(what, "cached")) {
		return show_cached(argv[2], argv[3]);
	} else if (!strcmp(what, "create")) {
		if (creat(argv[2], 0600) < 0)
			return perror(argv[2]), 1;
		printf("created as %d\n", getuid());
	} else if (!strcmp(what, "fail")) {
		printf("all is lost\n");
		return number;
	} else if (!strcmp(what, "crash")) {
		abort();
	} else if (!strcmp(what, "sleep")) {
		sleep(number);
	}
	return 0;
}
