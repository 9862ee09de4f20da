// SPDX-License-Identifier: GPL-2.0-or-later
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

char *testcase_description = "tasks in pairs send a byte to each other over TCP";

static void check(int ok)
{
	if (!ok)
		abort();
}

static int ends[1024][2];

void testcase_prepare(unsigned long nr_tasks)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(at);
	int listening = socket(AF_INET, SOCK_STREAM, 0);

	check(bind(listening, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(listening, 1) == 0);
	check(getsockname(listening, (struct sockaddr *)&at, &length) == 0);
	for (unsigned long pair = 0; pair < (nr_tasks + 1) / 2; pair++) {
		ends[pair][0] = socket(AF_INET, SOCK_STREAM, 0);
		check(connect(ends[pair][0], (struct sockaddr *)&at, sizeof(at)) == 0);
		ends[pair][1] = accept(listening, NULL, NULL);
		check(ends[pair][1] >= 0);
	}
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int end = ends[nr / 2][nr % 2];
	char byte = 0;

	while (1) {
		check(write(end, &byte, 1) == 1);
		check(read(end, &byte, 1) == 1);
		(*iterations)++;
	}
}
