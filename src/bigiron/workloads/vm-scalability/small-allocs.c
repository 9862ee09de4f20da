// SPDX-License-Identifier: GPL-2.0-or-later
/* mmap_lock for writing, VMAs, and the page of zeros: what it takes to map a little, over and over. */
/* As case-small-allocs; the maps go when there are 1,024. */
#include "usemem.h"

char *testcase_description = "map ten pages and read them";
char *testcase_differs = "1,024 mappings at most, which are then removed";

#define SMALL (10 * page_bytes)
#define MAPS 1024

static volatile char *map_some(int fd)
{
	volatile char *memory = mmap(NULL, SMALL, PROT_READ, MAP_PRIVATE, fd, 0);

	if (memory == MAP_FAILED)
		die("small-allocs: mmap");
	return memory;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	volatile char *maps[MAPS];
	int fd = open("/dev/zero", O_RDONLY);

	for (nr = 0;;) {
		maps[nr] = map_some(fd);
		for (unsigned long page = 0; page < 10; page++)
			maps[nr][page * page_bytes];
		if (++nr == MAPS)
			while (nr)
				munmap((void *)maps[--nr], SMALL);
		(*iterations)++;
	}
}
