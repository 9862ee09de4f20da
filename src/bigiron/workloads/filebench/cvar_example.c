// SPDX-License-Identifier: GPL-2.0-or-later
/* Path lookup, an open of a shared file and a short read of its cached pages. */
/* As cvar_example.f; sizes are evenly distributed, as there. */
#include "large_file.h"

char *testcase_description = "open a shared file, read 4 to 8 KiB of it, close it";
char *testcase_differs = "16 MiB instead of 100 MiB";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_large_file(LARGE);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	begin_task(nr);
	while (1) {
		int fd = open_large_file(O_RDWR);

		if (read(fd, buffer, 4 * KIB + random_below(4 * KIB + 1)) < (ssize_t)(4 * KIB))
			die("cvar_example: read");
		close(fd);
		(*iterations)++;
	}
}
